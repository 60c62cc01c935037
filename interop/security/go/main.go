// go-zookeeper through TLS: secure HOST:PORT ROOT EXPECTED CA [CERTIFICATE KEY]. Prints "done" or a reason.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/go-zookeeper/zk"
)

func main() {
	words := os.Args[1:]
	authority, err := os.ReadFile(words[3])
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	config := &tls.Config{RootCAs: roots, ServerName: "localhost"}
	if len(words) > 5 {
		pair, err := tls.LoadX509KeyPair(words[4], words[5])
		check(err)
		config.Certificates = []tls.Certificate{pair}
	}
	dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
		return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, address, config)
	}
	client, events, err := zk.Connect([]string{words[0]}, 10*time.Second, zk.WithDialer(dial), zk.WithLogInfo(false))
	check(err)
	go func() {
		for range events {
		}
	}()
	// An entry of scheme auth stands for what the server knows of this client.
	_, err = client.Create(words[1], make([]byte, 500_000), 0, zk.AuthACL(zk.PermAll))
	check(err)
	acl, _, err := client.GetACL(words[1])
	check(err)
	if seen := acl[0].Scheme + ":" + acl[0].ID; seen != words[2] {
		fail("the server sees " + seen)
	}
	data, _, err := client.Get(words[1])
	check(err)
	if len(data) != 500_000 {
		fail("the long value came back changed")
	}
	client.Close()
	fmt.Println("done")
}

func check(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(reason string) {
	fmt.Println(reason)
	os.Exit(1)
}
