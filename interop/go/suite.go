package main

import (
	"fmt"
	"net"
	"reflect"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// patience is a limit for a broken server, not a delay.
const patience = 30 * time.Second

// skipped is what a check panics with to be counted as skipped.
type skipped string

// check runs one check and prints its line. A check fails by panicking with what is wrong.
func check(name string, body func()) {
	done := make(chan string, 1)
	go func() {
		defer func() {
			switch reason := recover().(type) {
			case nil:
				done <- "ok go: " + name
			case skipped:
				done <- "skip go: " + name + ": " + string(reason)
			default:
				done <- fmt.Sprintf("not ok go: %s: %v", name, reason)
			}
		}()
		body()
	}()
	select {
	case line := <-done:
		fmt.Println(line)
	case <-time.After(3 * time.Minute):
		fmt.Printf("not ok go: %s: not at its end after three minutes\n", name)
	}
}

func equal(what string, expected, actual any) {
	if !reflect.DeepEqual(expected, actual) {
		panic(fmt.Sprintf("%s: expected <%v>, got <%v>", what, expected, actual))
	}
}

func that(condition bool, what string) {
	if !condition {
		panic(what)
	}
}

func good(what string, err error) {
	if err != nil {
		panic(fmt.Sprintf("%s: %v", what, err))
	}
}

func eventually(what string, condition func() bool) {
	for end := time.Now().Add(patience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			panic(what + ": did not happen")
		}
	}
}

// event waits for one event of a watch.
func event(channel <-chan zk.Event, kind zk.EventType, path string) {
	select {
	case seen := <-channel:
		equal("event", fmt.Sprint(kind, " ", path), fmt.Sprint(seen.Type, " ", seen.Path))
	case <-time.After(patience):
		panic(fmt.Sprintf("no event came; expected %v %s", kind, path))
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func connect(address string, timeout time.Duration) (*zk.Conn, <-chan zk.Event) {
	client, events, err := zk.Connect([]string{address}, timeout, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	good("connect", err)
	state(events, zk.StateHasSession)
	return client, events
}

// state reads session events until the wanted one comes.
func state(events <-chan zk.Event, wanted zk.State) {
	end := time.After(patience)
	for {
		select {
		case seen := <-events:
			if seen.State == wanted {
				return
			}
		case <-end:
			panic(fmt.Sprintf("the state %v was not reached", wanted))
		}
	}
}

// proxy stands between a client and the server and can cut the line.
type proxy struct {
	listener net.Listener
	server   string
	guard    sync.Mutex
	passing  bool
	open     []net.Conn
}

func newProxy(server string) *proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	good("listen", err)
	p := &proxy{listener: listener, server: server, passing: true}
	go p.acceptAll()
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) cut() {
	p.guard.Lock()
	defer p.guard.Unlock()
	p.passing = false
	for _, connection := range p.open {
		connection.Close()
	}
	p.open = nil
}

func (p *proxy) restore() {
	p.guard.Lock()
	defer p.guard.Unlock()
	p.passing = true
}

func (p *proxy) close() {
	p.listener.Close()
	p.cut()
}

func (p *proxy) acceptAll() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.guard.Lock()
		var server net.Conn
		if p.passing {
			server, err = net.Dial("tcp", p.server)
		}
		if server == nil || err != nil {
			client.Close()
		} else {
			p.open = append(p.open, client, server)
			go copyBytes(client, server)
			go copyBytes(server, client)
		}
		p.guard.Unlock()
	}
}

func copyBytes(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 64*1024)
	for {
		count, err := from.Read(buffer)
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:count]); err != nil {
			return
		}
	}
}
