package main

import (
	"bytes"
	"os"
	"testing"
)

// TestMeaningsAreCurrent: the comments are those of the types as they are now.
func TestMeaningsAreCurrent(t *testing.T) {
	want, err := generate([]string{"../../../../events", "../../..", "../../../view"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../meaning_gen.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("projector/table/meaning_gen.go is stale: go generate ./projector/table")
	}
}

func TestReword(t *testing.T) {
	names := map[string]string{"Open": "window_open", "End": "window_end"}
	for _, tc := range []struct {
		name, text, want string
		seq              bool
	}{
		{"names", "Open is where it begins, and End where not.", "window_open is where it begins, and window_end where not", false},
		{"no part of a word", "Opens, End-of-file", "Opens, window_end-of-file", false},
		{"nil", "nil until it is named", "NULL until it is named", false},
		{"no record", "0 while it is not; 10 at most", "NULL while it is not; 10 at most", true},
		{"a count", "0 while it is not", "0 while it is not", false},
	} {
		if got := reword(tc.text, names, tc.seq); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
