// Reads mntr with Telegraf's zookeeper input and prints the state and each field with its type, sorted.
package main

import (
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/plugins/inputs/zookeeper"
)

// printer takes what the input gathers. Its input calls no other method of an accumulator.
type printer struct {
	telegraf.Accumulator
	lines  []string
	failed error
}

func (p *printer) AddFields(measurement string, fields map[string]any, tags map[string]string, _ ...time.Time) {
	p.lines = append(p.lines, fmt.Sprintf("state %s %s", measurement, tags["state"]))
	for name, value := range fields {
		p.lines = append(p.lines, fmt.Sprintf("field %s %T %v", name, value, value))
	}
}

func (p *printer) AddError(err error) {
	if err != nil {
		p.failed = err
	}
}

func main() {
	input := &zookeeper.Zookeeper{Servers: os.Args[1:], Timeout: config.Duration(20 * time.Second)}
	output := &printer{}
	if err := input.Gather(output); err != nil {
		output.failed = err
	}
	if output.failed != nil {
		fmt.Fprintln(os.Stderr, output.failed)
		os.Exit(1)
	}
	sort.Strings(output.lines)
	for _, line := range output.lines {
		fmt.Println(line)
	}
}
