package main

import "testing"

func at(ns int64) *int64 { return &ns }

func read(value int64, version int32, called, answered int64) operation {
	return operation{Client: 1, Kind: "read", Value: value, Version: version, Outcome: "ok", Called: called, Answered: at(answered)}
}

func TestVerdicts(t *testing.T) {
	write := operation{Kind: "write", Value: 7, Version: 1, Outcome: "ok", Called: 0, Answered: at(10)}
	lost := operation{Kind: "write", Value: 7, Outcome: "unknown", Called: 0}
	refused := operation{Client: 2, Kind: "write_if", Value: 8, Version: 0, Outcome: "bad_version", Called: 11, Answered: at(12)}
	cases := []struct {
		name       string
		operations []operation
		verdict    string
	}{
		{"a read after a write", []operation{write, read(7, 1, 11, 12)}, "ok"},
		{"an old read beside a write", []operation{write, read(0, 0, 5, 12)}, "ok"},
		{"an old read after a write", []operation{write, read(0, 0, 11, 12)}, "violation"},
		{"a write without an answer comes late", []operation{lost, read(0, 0, 11, 12), read(7, 1, 13, 14)}, "ok"},
		{"a value that disappears", []operation{lost, read(7, 1, 11, 12), read(0, 0, 13, 14)}, "violation"},
		{"a conditional write at an old version", []operation{write, refused}, "ok"},
		{"a conditional write that is refused for nothing", []operation{refused}, "violation"},
	}
	for _, each := range cases {
		if verdict := judge(history{each.name, each.operations}); verdict != each.verdict {
			t.Errorf("%s: %s instead of %s", each.name, verdict, each.verdict)
		}
	}
}
