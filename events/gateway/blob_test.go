package gateway_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"assay/events/gateway"
	"assay/internal/blob"
)

// TestNoBlobStore: whoever uploads is told at once, for good, and where to go.
func TestNoBlobStore(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.Blobs = nil })
	for _, size := range []int{1, gateway.DefaultBlob / 8} {
		a := d.do(os.Getuid(), "PUT", "/v1/blobs", "", strings.Repeat("x", size))
		if a.status != 501 || a.code() != "no_blob_store" || a.header.Get("Retry-After") != "" || !strings.Contains(a.body, `"retry_after":null`) || !strings.Contains(a.body, "assay blob put") {
			t.Errorf("%d bytes: %d %s", size, a.status, a.body)
		}
	}
	if a := d.post(structured, gate(t)); a.status != 200 || d.Stats().Refused["no_blob_store"] != 2 {
		t.Errorf("an event: %d %s, %+v", a.status, a.body, d.Stats())
	}
}

func TestBlobs(t *testing.T) {
	var noRoom error
	d := open(t, func(c *gateway.Config) {
		c.File.BlobBytes = 1000
		c.Room = func() error { return noRoom }
	})
	a := d.do(os.Getuid(), "PUT", "/v1/blobs", "text/plain", "what was said")
	var put struct {
		Ref  string `json:"ref"`
		Size int64  `json:"size"`
	}
	if err := json.Unmarshal([]byte(a.body), &put); err != nil || a.status != 201 || put.Size != 13 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	store, err := blob.OpenExisting(filepath.Join(filepath.Dir(d.socket), "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	name, ok := blob.ParseRef(put.Ref)
	var content bytes.Buffer
	if err := store.Content(name, &content); !ok || err != nil || content.String() != "what was said" {
		t.Errorf("%q, %v", content.String(), err)
	}
	if a := d.do(os.Getuid(), "PUT", "/v1/blobs", "", strings.Repeat("x", 1001)); a.status != 413 {
		t.Errorf("too large: %d %s", a.status, a.body)
	}
	// The same without a length in front.
	req, err := http.NewRequest("PUT", "http://gateway/v1/blobs", io.MultiReader(strings.NewReader(strings.Repeat("x", 1001))))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := d.client(os.Getuid()).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("too large, chunked: %d", resp.StatusCode)
	}
	noRoom = errors.New("disk is full")
	if a := d.do(os.Getuid(), "PUT", "/v1/blobs", "", "x"); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("no room: %d %s", a.status, a.body)
	}
	if n, size, err := store.Leftovers(); n != 0 || err != nil {
		t.Errorf("left over: %d files, %d bytes, %v", n, size, err)
	}
}
