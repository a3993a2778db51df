package publish_test

import (
	"context"
	"errors"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"

	"assay/internal/principal"
	"assay/ledger/broker"
	"assay/ledger/logger"
	"assay/ledger/stream"
)

// exampleLedger starts broker and logger on a fresh directory.
func exampleLedger() (stop func(), dir string) {
	tmp, err := os.MkdirTemp("", "assay-example-")
	check(err)
	dir, offline := filepath.Join(tmp, "ledger"), filepath.Join(tmp, "offline")
	file, _, err := principal.Dir(dir).Init(offline)
	check(err)
	b, err := broker.Start(broker.Config{Dir: dir})
	check(err)
	connect := func(path string, opts ...nats.Option) *nats.Conn {
		cred, err := principal.LoadCredential(path)
		check(err)
		nc, err := b.Connect(cred, opts...)
		check(err)
		return nc
	}
	ctx, cancel := context.WithCancel(context.Background())
	store := connect(principal.CredentialPath(offline, principal.BootstrapStore))
	buffer := connect(principal.CredentialPath(offline, principal.BootstrapTelemetry))
	check(broker.CreateStreams(ctx, store, buffer, 1))
	store.Close()
	buffer.Close()
	files := logger.Files(filepath.Join(dir, "logger"))
	_, err = logger.CreateKeys(files, "example.com/log")
	check(err)
	s, err := stream.New(connect(principal.Dir(dir).Credential(principal.LoggerStore)), stream.Config{})
	check(err)
	cfg := logger.Config{Dir: string(files), Stream: s, Software: "example"}
	check(logger.Genesis(ctx, cfg, strings.Repeat("0", 64)))
	l, err := logger.Open(ctx, cfg)
	check(err)
	in, err := l.Listen(func(opts ...nats.Option) (*nats.Conn, error) {
		return connect(principal.Dir(dir).Credential(principal.LoggerIntake), opts...), nil
	}, file.Principals)
	check(err)
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	return func() {
		cancel()
		err := <-ended
		in.Close()
		check(errors.Join(err, l.Close(), b.Stop(context.Background()), os.RemoveAll(tmp)))
	}, dir
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
