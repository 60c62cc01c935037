// Drives a server with go-zookeeper, every exported function of it: interop HOST:PORT
package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

var (
	address string
	root    string
	client  *zk.Conn
	open    = zk.WorldACL(zk.PermAll)
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: interop HOST:PORT")
		os.Exit(2)
	}
	address = os.Args[1]
	root = fmt.Sprintf("/go-%d", time.Now().UnixNano())
	var events <-chan zk.Event
	client, events = connect(address, 10*time.Second)
	go drain(events)
	create(root, "")
	check("create, get, set, delete", nodes)
	check("flags of create", flags)
	check("containers", containers)
	check("TTL nodes", ttl)
	check("protected ephemeral sequential", protected)
	check("children and exists", children)
	check("null, empty and large data", sizes)
	check("sync", func() {
		path, err := client.Sync(root)
		good("sync", err)
		equal("path", root, path)
	})
	check("ACLs", acls)
	check("authentication", authentication)
	check("unknown authentication scheme", unknownScheme)
	check("multi", multi)
	check("multi that fails", failedMulti)
	check("watches", watches)
	check("many goroutines on one connection", pipeline)
	check("watches across a reconnect", reconnect)
	check("credentials across a reconnect", credentials)
	check("session expiry", expiry)
	check("close removes ephemerals", closing)
	check("server lists, dialer, callback, host provider", options)
	check("lock", locks)
	check("lock of a session that expires", lostLock)
	check("reconfiguration is refused", reconfiguration)
	check("four-letter words ruok and cons", fourLetterWords)
	check("four-letter word srvr", serverStats)
	deleteTree(root)
	client.Close()
}

func drain(events <-chan zk.Event) {
	for range events {
	}
}

func create(path, data string) string {
	made, err := client.Create(path, []byte(data), zk.FlagPersistent, open)
	good("create "+path, err)
	return made
}

func deleteTree(path string) {
	names, _, err := client.Children(path)
	if err != nil {
		return
	}
	for _, name := range names {
		deleteTree(path + "/" + name)
	}
	_ = client.Delete(path, -1)
}

func nodes() {
	path := root + "/plain"
	equal("created path", path, create(path, "one"))
	data, stat, err := client.Get(path)
	good("get", err)
	equal("data", "one", string(data))
	equal("version", int32(0), stat.Version)
	equal("length", int32(3), stat.DataLength)
	stat, err = client.Set(path, []byte("two"), 0)
	good("set", err)
	equal("version after set", int32(1), stat.Version)
	_, err = client.Set(path, []byte("x"), 0)
	equal("set with an old version", zk.ErrBadVersion, err)
	_, err = client.Create(path, nil, 0, open)
	equal("create again", zk.ErrNodeExists, err)
	create(path+"/child", "")
	equal("delete of a parent", zk.ErrNotEmpty, client.Delete(path, -1))
	good("delete", client.Delete(path+"/child", -1))
	equal("delete with an old version", zk.ErrBadVersion, client.Delete(path, 0))
	good("delete", client.Delete(path, 1))
	equal("delete again", zk.ErrNoNode, client.Delete(path, -1))
	_, _, err = client.Get(path)
	equal("get of nothing", zk.ErrNoNode, err)
	_, _, err = client.Children(path)
	equal("children of nothing", zk.ErrNoNode, err)
	_, err = client.Create(path+"/child", nil, 0, open)
	equal("create below nothing", zk.ErrNoNode, err)
}

func flags() {
	parent := create(root+"/flags", "")
	for index, flag := range []int32{zk.FlagSequence, zk.FlagEphemeralSequential, zk.FlagSequence} {
		made, err := client.Create(parent+"/n-", nil, flag, open)
		good("create", err)
		equal("name", fmt.Sprintf("%s/n-%010d", parent, index), made)
	}
	made, err := client.Create(parent+"/e", nil, zk.FlagEphemeral, open)
	good("create ephemeral", err)
	_, stat, err := client.Exists(made)
	good("exists", err)
	equal("owner", client.SessionID(), stat.EphemeralOwner)
	_, err = client.Create(made+"/child", nil, 0, open)
	equal("child of an ephemeral", zk.ErrNoChildrenForEphemerals, err)
	_, err = client.Create(parent+"/bad", nil, 99, open)
	that(err != nil, "unknown flags were accepted")
}

func containers() {
	made, err := client.CreateContainer(root+"/container", nil, zk.FlagContainer, open)
	good("create container", err)
	create(made+"/child", "")
}

func ttl() {
	made, err := client.CreateTTL(root+"/ttl", nil, zk.FlagTTL, open, time.Hour)
	if errors.Is(err, zk.ErrUnknown) || err != nil && strings.Contains(err.Error(), "-6") {
		panic(skipped("the server has extendedTypesEnabled=false"))
	}
	good("create with TTL", err)
	equal("path", root+"/ttl", made)
	made, err = client.CreateTTL(root+"/ttl-", nil, zk.FlagPersistentSequentialWithTTL, open, time.Hour)
	good("create sequential with TTL", err)
	that(regexp.MustCompile(`/ttl-\d{10}$`).MatchString(made), made)
}

func protected() {
	made, err := client.CreateProtectedEphemeralSequential(root+"/p-", []byte("x"), open)
	good("create", err)
	that(regexp.MustCompile(`/_c_[0-9a-f]{32}-p-\d{10}$`).MatchString(made), made)
}

func children() {
	parent := create(root+"/parent", "")
	for _, name := range []string{"b", "a"} {
		create(parent+"/"+name, "")
	}
	names, stat, err := client.Children(parent)
	good("children", err)
	sort.Strings(names)
	equal("names", []string{"a", "b"}, names)
	equal("number", int32(2), stat.NumChildren)
	found, _, err := client.Exists(parent)
	good("exists", err)
	that(found, "not found")
	found, _, err = client.Exists(parent + "/no")
	good("exists of nothing", err)
	that(!found, "found")
}

func sizes() {
	path := create(root+"/sizes", "")
	large := bytes.Repeat([]byte("x"), 900_000)
	_, err := client.Set(path, large, -1)
	good("set", err)
	data, _, err := client.Get(path)
	good("get", err)
	that(bytes.Equal(data, large), "large data came back changed")
	_, err = client.Set(path, nil, -1)
	good("set null", err)
	data, _, err = client.Get(path)
	good("get null", err)
	equal("length", 0, len(data))
}

func acls() {
	path := create(root+"/acl", "")
	acl, stat, err := client.GetACL(path)
	good("get ACL", err)
	equal("ACL", open, acl)
	equal("version", int32(0), stat.Aversion)
	stat, err = client.SetACL(path, zk.WorldACL(zk.PermRead), 0)
	good("set ACL", err)
	equal("version after set", int32(1), stat.Aversion)
	_, err = client.Set(path, nil, -1)
	equal("set without the right", zk.ErrNoAuth, err)
	_, err = client.SetACL(path, open, -1)
	equal("set ACL without the right", zk.ErrNoAuth, err)
	_, err = client.Create(root+"/acl-bad", nil, 0, nil)
	equal("no ACL", zk.ErrInvalidACL, err)
}

func authentication() {
	ann, events := connect(address, 10*time.Second)
	defer ann.Close()
	go drain(events)
	good("add auth", ann.AddAuth("digest", []byte("ann:secret")))
	path, err := ann.Create(root+"/auth", []byte("x"), 0, zk.AuthACL(zk.PermAll))
	good("create", err)
	acl, _, err := ann.GetACL(path)
	good("get ACL", err)
	equal("ACL", zk.DigestACL(zk.PermAll, "ann", "secret"), acl)
	_, _, err = client.Get(path)
	equal("a stranger reads", zk.ErrNoAuth, err)
	_, err = client.Create(root+"/auth-none", nil, 0, zk.AuthACL(zk.PermAll))
	equal("auth without credentials", zk.ErrInvalidACL, err)
	good("delete", ann.Delete(path, -1))
}

func unknownScheme() {
	stranger, events := connect(address, 10*time.Second)
	defer stranger.Close()
	go drain(events)
	err := stranger.AddAuth("nonsense", []byte("x"))
	that(err != nil, "it was accepted")
}

func multi() {
	path := root + "/multi"
	results, err := client.Multi(
		&zk.CreateRequest{Path: path, Data: []byte("m"), Acl: open},
		&zk.CreateRequest{Path: path + "/s-", Acl: open, Flags: zk.FlagSequence},
		&zk.SetDataRequest{Path: path, Data: []byte("mm"), Version: 0},
		&zk.CheckVersionRequest{Path: path, Version: 1},
		&zk.DeleteRequest{Path: path + "/s-0000000000", Version: 0},
	)
	good("multi", err)
	equal("results", 5, len(results))
	for index, result := range results {
		good(fmt.Sprint("part ", index), result.Error)
	}
	equal("created path", path, results[0].String)
	equal("sequence name", path+"/s-0000000000", results[1].String)
	equal("version", int32(1), results[2].Stat.Version)
}

func failedMulti() {
	path := create(root+"/multi-fails", "")
	results, err := client.Multi(
		&zk.CreateRequest{Path: path + "/never", Acl: open},
		&zk.CheckVersionRequest{Path: path, Version: 7},
		&zk.DeleteRequest{Path: path, Version: -1},
	)
	equal("error", zk.ErrBadVersion, err)
	equal("results", 3, len(results))
	equal("part before", nil, results[0].Error)
	equal("part that fails", zk.ErrBadVersion, results[1].Error)
	that(results[2].Error != nil, "the part after the failure has no error")
	found, _, err := client.Exists(path + "/never")
	good("exists", err)
	that(!found, "a part of it happened")
}

func watches() {
	path := root + "/watched"
	found, _, created, err := client.ExistsW(path)
	good("exists", err)
	that(!found, "found")
	create(path, "")
	event(created, zk.EventNodeCreated, path)
	_, _, changed, err := client.GetW(path)
	good("get", err)
	_, err = client.Set(path, []byte("x"), -1)
	good("set", err)
	event(changed, zk.EventNodeDataChanged, path)
	_, _, listed, err := client.ChildrenW(path)
	good("children", err)
	create(path+"/c", "")
	event(listed, zk.EventNodeChildrenChanged, path)
	_, _, deleted, err := client.ExistsW(path + "/c")
	good("exists", err)
	_, _, emptied, err := client.ChildrenW(path + "/c")
	good("children", err)
	good("delete", client.Delete(path+"/c", -1))
	event(deleted, zk.EventNodeDeleted, path+"/c")
	event(emptied, zk.EventNodeDeleted, path+"/c")
}

func pipeline() {
	parent := create(root+"/pipeline", "")
	var group sync.WaitGroup
	var failures atomic.Int32
	for index := 0; index < 200; index++ {
		group.Add(1)
		go func() {
			defer group.Done()
			path := fmt.Sprintf("%s/%d", parent, index)
			if _, err := client.Create(path, []byte(path), 0, open); err != nil {
				failures.Add(1)
			} else if data, _, err := client.Get(path); err != nil || string(data) != path {
				failures.Add(1)
			}
		}()
	}
	group.Wait()
	equal("failures", int32(0), failures.Load())
	names, _, err := client.Children(parent)
	good("children", err)
	equal("children", 200, len(names))
}

func reconnect() {
	p := newProxy(address)
	defer p.close()
	path := create(root+"/away", "")
	create(path+"/data", "")
	create(path+"/deleted", "")
	other, events := connect(p.address(), 10*time.Second)
	defer other.Close()
	session := other.SessionID()
	_, _, changed, err := other.GetW(path + "/data")
	good("get", err)
	_, _, deleted, err := other.ExistsW(path + "/deleted")
	good("exists", err)
	_, _, created, err := other.ExistsW(path + "/created")
	good("exists", err)
	_, _, listed, err := other.ChildrenW(path)
	good("children", err)
	_, _, later, err := other.GetW(path)
	good("get", err)
	p.cut()
	state(events, zk.StateDisconnected)
	_, err = client.Set(path+"/data", nil, -1)
	good("set", err)
	good("delete", client.Delete(path+"/deleted", -1))
	create(path+"/created", "")
	p.restore()
	state(events, zk.StateHasSession)
	event(changed, zk.EventNodeDataChanged, path+"/data")
	event(deleted, zk.EventNodeDeleted, path+"/deleted")
	event(created, zk.EventNodeCreated, path+"/created")
	event(listed, zk.EventNodeChildrenChanged, path)
	equal("session", session, other.SessionID())
	_, err = client.Set(path, nil, -1)
	good("set", err)
	event(later, zk.EventNodeDataChanged, path)
}

func credentials() {
	p := newProxy(address)
	defer p.close()
	ann, events := connect(p.address(), 10*time.Second)
	defer ann.Close()
	good("add auth", ann.AddAuth("digest", []byte("ann:secret")))
	path, err := ann.Create(root+"/credentials", []byte("x"), 0, zk.AuthACL(zk.PermAll))
	good("create", err)
	p.cut()
	state(events, zk.StateDisconnected)
	p.restore()
	state(events, zk.StateHasSession)
	_, _, err = ann.Get(path)
	good("get", err)
	good("delete", ann.Delete(path, -1))
}

func expiry() {
	p := newProxy(address)
	defer p.close()
	other, events := connect(p.address(), 4*time.Second)
	defer other.Close()
	session := other.SessionID()
	path, err := other.Create(root+"/expiry", nil, zk.FlagEphemeral, open)
	good("create", err)
	_, _, deleted, err := client.ExistsW(path)
	good("exists", err)
	p.cut()
	event(deleted, zk.EventNodeDeleted, path)
	p.restore()
	state(events, zk.StateExpired)
	state(events, zk.StateHasSession)
	that(other.SessionID() != session, "the expired session goes on")
}

func closing() {
	other, events := connect(address, 10*time.Second)
	go drain(events)
	path, err := other.Create(root+"/closing", nil, zk.FlagEphemeral, open)
	good("create", err)
	_, _, deleted, err := client.ExistsW(path)
	good("exists", err)
	other.Close()
	event(deleted, zk.EventNodeDeleted, path)
	_, _, err = other.Get(path)
	that(err != nil, "a closed connection works")
}

func options() {
	equal("formatted", []string{"a:2181", "b:1"}, zk.FormatServers([]string{"a", "b:1"}))
	var dialed, called atomic.Int32
	dialer := func(network, address string, timeout time.Duration) (net.Conn, error) {
		dialed.Add(1)
		return net.DialTimeout(network, address, timeout)
	}
	servers := []string{"127.0.0.1:1", address}
	other, events, err := zk.Connect(servers, 10*time.Second, zk.WithDialer(dialer), zk.WithLogger(silent{}),
		zk.WithEventCallback(func(zk.Event) { called.Add(1) }), zk.WithMaxBufferSize(1<<20),
		zk.WithMaxConnBufferSize(1<<20), zk.WithHostProvider(zk.NewDNSHostProvider(zk.WithLookupTimeout(time.Second))))
	good("connect", err)
	defer other.Close()
	state(events, zk.StateHasSession)
	equal("server", address, other.Server())
	equal("state", zk.StateHasSession, other.State())
	that(dialed.Load() > 0 && called.Load() > 0, "the dialer or the callback was not used")
	third, events, err := zk.ConnectWithDialer([]string{address}, 10*time.Second, dialer)
	good("connect with dialer", err)
	third.SetLogger(silent{})
	state(events, zk.StateHasSession)
	third.Close()
}

func locks() {
	var inside, rounds atomic.Int32
	var group sync.WaitGroup
	failures := make(chan string, 100)
	for index := 0; index < 4; index++ {
		group.Add(1)
		go func() {
			defer group.Done()
			own, events := connect(address, 10*time.Second)
			go drain(events)
			defer own.Close()
			lock := zk.NewLock(own, root+"/lock/deep", open)
			for round := 0; round < 5; round++ {
				if err := lock.LockWithData([]byte("mine")); err != nil {
					failures <- err.Error()
					return
				}
				if inside.Add(1) != 1 {
					failures <- "two inside"
				}
				rounds.Add(1)
				inside.Add(-1)
				if err := lock.Unlock(); err != nil {
					failures <- err.Error()
				}
			}
		}()
	}
	group.Wait()
	equal("failures", 0, len(failures))
	equal("rounds", int32(20), rounds.Load())
	lock := zk.NewLock(client, root+"/lock/deep", open)
	good("lock", lock.Lock())
	equal("second lock", zk.ErrDeadlock, lock.Lock())
	good("unlock", lock.Unlock())
	equal("second unlock", zk.ErrNotLocked, lock.Unlock())
}

func lostLock() {
	p := newProxy(address)
	defer p.close()
	other, events := connect(p.address(), 4*time.Second)
	go drain(events)
	defer other.Close()
	good("lock", zk.NewLock(other, root+"/lost-lock", open).Lock())
	p.cut()
	mine := zk.NewLock(client, root+"/lost-lock", open)
	good("lock after the owner's session expired", mine.Lock())
	good("unlock", mine.Unlock())
}

func reconfiguration() {
	_, err := client.IncrementalReconfig([]string{"server.9=127.0.0.1:1:2;3"}, nil, -1)
	that(err != nil, "a join was accepted")
	_, second := client.Reconfig([]string{"server.9=127.0.0.1:1:2;3"}, -1)
	equal("error", fmt.Sprint(err), fmt.Sprint(second))
	that(strings.Contains(err.Error(), "reconfiguration feature is disabled"), err.Error())
}

func fourLetterWords() {
	equal("ruok", []bool{true}, zk.FLWRuok([]string{address}, patience))
	// Its second result is false on every server: the line of the asking connection has no session.
	clients, _ := zk.FLWCons([]string{address}, patience)
	that(len(clients[0].Clients) > 0, "cons shows no client")
}

func serverStats() {
	stats, ok := zk.FLWSrvr([]string{address}, patience)
	if !ok && strings.Contains(fmt.Sprint(stats[0].Error), "no regex") {
		panic(skipped("this client cannot read the date in srvr of ZooKeeper 3.6 and later"))
	}
	that(ok, fmt.Sprintf("srvr: %v", stats[0].Error))
}
