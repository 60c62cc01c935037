// Reads mntr with the ZooKeeper module of Netdata's go.d plugin. Prints the state as Netdata counts it and each value's name,
// sorted. Each value of a chart must be there.
package main

import (
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/netdata/go.d.plugin/modules/zookeeper"
	"github.com/netdata/go.d.plugin/pkg/web"
)

func main() {
	module := zookeeper.New()
	module.Address = os.Args[1]
	module.Timeout = web.Duration{Duration: 20 * time.Second}
	if !module.Init() {
		os.Exit(1)
	}
	values := module.Collect()
	var lines []string
	for _, chart := range *module.Charts() {
		for _, dimension := range chart.Dims {
			if _, found := values[dimension.ID]; !found {
				fmt.Fprintln(os.Stderr, "no value", dimension.ID)
				os.Exit(1)
			}
		}
	}
	for name, value := range values {
		lines = append(lines, fmt.Sprintf("field %s int64 %d", name, value))
	}
	sort.Strings(lines)
	for _, line := range lines {
		fmt.Println(line)
	}
	fmt.Println("state zookeeper", values["server_state"])
}
