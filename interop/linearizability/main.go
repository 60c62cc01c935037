// Judges recorded histories with porcupine: is there an order of the operations, in agreement with real time,
// in which each node behaves as one register with a version?
//
// Standard input has one history per line, as JSON. Standard output gets one line per history: its name, and
// "ok", "violation" or "unknown". "unknown" means that the time limit of a history was too short.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// The longest line that is read, and the longest time for one history.
const (
	lineBytesMax = 64 << 20
	timeLimit    = 120 * time.Second
)

type operation struct {
	Client  int    `json:"client"`
	Node    int    `json:"node"`
	Kind    string `json:"kind"`
	Value   int64  `json:"value"`
	Version int32  `json:"version"`
	// "ok", "bad_version", or "unknown" for a write without an answer.
	Outcome string `json:"outcome"`
	Called  int64  `json:"called"`
	// Missing for a write without an answer: it may take effect at any later time.
	Answered *int64 `json:"answered"`
}

type history struct {
	Name       string      `json:"name"`
	Operations []operation `json:"operations"`
}

// The state of one node: its data as a number, and its version.
type register struct {
	value   int64
	version int32
}

func step(state, input, _ interface{}) (bool, interface{}) {
	node := state.(register)
	op := input.(operation)
	next := register{value: op.Value, version: node.version + 1}
	switch op.Kind {
	case "read":
		return op.Value == node.value && op.Version == node.version, node
	case "write":
		// The answer of setData has the new version.
		return op.Outcome == "unknown" || op.Version == next.version, next
	case "write_if":
		matches := op.Version == node.version
		switch op.Outcome {
		case "ok":
			return matches, next
		case "bad_version":
			return !matches, node
		}
		if matches {
			return true, next
		}
		return true, node
	}
	return false, node
}

func byNode(operations []porcupine.Operation) [][]porcupine.Operation {
	parts := map[int][]porcupine.Operation{}
	for _, each := range operations {
		node := each.Input.(operation).Node
		parts[node] = append(parts[node], each)
	}
	var all [][]porcupine.Operation
	for _, part := range parts {
		all = append(all, part)
	}
	return all
}

func judge(recorded history) string {
	var end int64
	for _, each := range recorded.Operations {
		end = max(end, each.Called)
		if each.Answered != nil {
			end = max(end, *each.Answered)
		}
	}
	var operations []porcupine.Operation
	for _, each := range recorded.Operations {
		answered := end + 1
		if each.Answered != nil {
			answered = *each.Answered
		}
		operations = append(operations, porcupine.Operation{
			ClientId: each.Client, Input: each, Call: each.Called, Return: answered,
		})
	}
	model := porcupine.Model{
		Partition: byNode,
		Init:      func() interface{} { return register{} },
		Step:      step,
		Equal:     func(a, b interface{}) bool { return a == b },
	}
	switch porcupine.CheckOperationsTimeout(model, operations, timeLimit) {
	case porcupine.Ok:
		return "ok"
	case porcupine.Illegal:
		return "violation"
	}
	return "unknown"
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, lineBytesMax)
	for lines.Scan() {
		var recorded history
		if err := json.Unmarshal(lines.Bytes(), &recorded); err != nil {
			fmt.Fprintln(os.Stderr, "a history cannot be read:", err)
			os.Exit(1)
		}
		fmt.Println(recorded.Name, judge(recorded))
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "the histories cannot be read:", err)
		os.Exit(1)
	}
}
