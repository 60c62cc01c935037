// rolling HOST:PORT PREFIX: writes with go-zookeeper until standard input ends.
//
// Each write creates the sequential node PREFIX-<number>-, and is never repeated. The lines on standard output are
// those of kazoo_rolling.py.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

var output sync.Mutex

func say(format string, values ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf(format+"\n", values...)
}

func main() {
	server, prefix := os.Args[1], os.Args[2]
	client, events, err := zk.Connect([]string{server}, 30*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		log.Fatal(err)
	}
	first := make(chan struct{})
	var connected, stop atomic.Bool
	go func() {
		once := sync.OnceFunc(func() { close(first) })
		for event := range events {
			switch event.State {
			case zk.StateHasSession:
				connected.Store(true)
				once()
			case zk.StateDisconnected:
				if connected.Swap(false) {
					say("lost")
				}
			}
		}
	}()
	<-first
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop.Store(true)
	}()
	say("ready")
	for number := 1; !stop.Load(); number++ {
		for !connected.Load() && !stop.Load() {
			time.Sleep(5 * time.Millisecond)
		}
		_, err := client.Create(fmt.Sprintf("%s-%d-", prefix, number), nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		switch {
		case err == nil:
			say("ok %d", number)
		case errors.Is(err, zk.ErrNoNode):
			log.Fatal(err)
		default:
			say("unknown %d %v", number, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	say("done")
}
