package publish_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"assay/events"
	"assay/events/publish"
	"assay/events/publish/spool"
)

// An agent publishes with a spool: whatever becomes of the ledger, the event
// is on disk before Publish returns without an error of another kind.
func ExampleClient_Publish() {
	stop, dir := exampleLedger() // a running ledger
	defer stop()

	url, err := os.ReadFile(filepath.Join(dir, "run", "nats.url"))
	if err != nil {
		log.Fatal(err)
	}
	credential, err := nats.NkeyOptionFromSeed(filepath.Join(dir, "creds", "agent.piper.nk"))
	if err != nil {
		log.Fatal(err)
	}
	nc, err := nats.Connect(strings.TrimSpace(string(url)), credential, nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	queue, err := spool.Open(spool.Config{Dir: filepath.Join(dir, "piper-spool"), Principal: "agent/piper", Limit: 8 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	client := publish.NewClient(publish.Config{Conn: nc, Principal: "agent/piper", Spool: queue})
	forwarding, endForwarding := context.WithCancel(context.Background())
	defer endForwarding()
	go client.Forward(forwarding)

	event, err := events.Maker{Source: "urn:piper"}.New(&events.GateChosen{Action: "TEST"})
	if err != nil {
		log.Fatal(err)
	}
	raw, err := events.Encode(event)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	receipt, err := client.Publish(ctx, raw)
	var refusal *publish.Refusal
	switch {
	case err == nil:
		fmt.Println("recorded at", *receipt.Seq)
	case errors.Is(err, publish.ErrSpooled):
		fmt.Println("on disk, will be delivered; the same bytes published again get the receipt")
	case errors.As(err, &refusal):
		fmt.Println("refused:", refusal.Code, refusal.Pointer)
	case errors.Is(err, spool.ErrFull):
		fmt.Println("slow down: neither the ledger nor the disk has room")
	default:
		log.Fatal(err)
	}
	// Output: recorded at 3
}
