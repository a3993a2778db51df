package tamper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"assay/cmd/internal/node"
	"assay/events"
	"assay/events/eventstest"
	"assay/events/publish"
	"assay/internal/kv"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/logger"
	"assay/ledger/stream"
	"assay/projector"
	"assay/projector/view"
)

// lab is a whole ledger whose copies are tampered with.
type lab struct {
	dir     node.Dir
	offline string
	bodies  [][]byte // 1…n
	older   node.Dir // the same ledger when it was shorter
	pin     *node.Pin
	kept    []uint64 // sizes of the checkpoints on file
	before  int      // records that the older copy holds
}

// newLab makes a ledger of two sessions, between which a copy is kept. pad is
// the length of the text in each event; events is how many each session takes.
func newLab(t testing.TB, each, pad int) *lab {
	t.Helper()
	root := t.TempDir()
	l := &lab{dir: node.Dir(filepath.Join(root, "ledger")), offline: filepath.Join(root, "offline"), older: node.Dir(filepath.Join(root, "older"))}
	ctx := context.Background()
	_, err := node.Init(ctx, node.InitConfig{Dir: l.dir, OfflineDir: l.offline, Origin: "example.com/lab", Software: "test"})
	check(t, err)
	l.session(t, each, pad)
	copyDir(t, l.dir, l.older)
	l.read(t)
	l.before = len(l.bodies)
	l.session(t, each, pad)
	l.read(t)
	return l
}

// session runs the services that write and takes n events.
func (l *lab) session(t testing.TB, n, pad int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b, err := broker.Start(broker.Config{Dir: string(l.dir), Log: zerolog.Nop()})
	check(t, err)
	hub := node.EmbeddedHub(b, l.dir.Creds())
	lg, err := node.StartLogger(ctx, hub, node.UpConfig{Dir: l.dir, Software: "test", Log: zerolog.Nop()})
	check(t, err)
	cred, err := principal.LoadCredential(principal.CredentialPath(l.dir.Creds(), "agent.piper"))
	check(t, err)
	nc, err := hub.DialAs(cred, true)
	check(t, err)
	client := publish.New(nc, "agent/piper")
	for range n {
		texts := []string{}
		for left := pad; left > 0; left -= 2000 {
			texts = append(texts, strings.Repeat("x", min(left, 2000)))
		}
		status := "hypothesis"
		_, err := client.Publish(ctx, eventstest.Encode(t, &events.ClaimRecorded{
			ClaimID: fmt.Sprintf("claim-%d", time.Now().UnixNano()), Status: status, Assumptions: texts,
			Proposition: &events.Proposition{Variable: "v", Value: "x"},
		}))
		check(t, err)
	}
	nc.Close()
	cancel()
	check(t, lg.Wait())
	l.fold(t, hub, l.dir)
	stop, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	check(t, b.Stop(stop))
}

// fold brings the views up to the end.
func (l *lab) fold(t testing.TB, hub *node.Hub, dir node.Dir) {
	t.Helper()
	db, err := kv.Open(dir.Views(), kv.Options{})
	check(t, err)
	s, nc, err := hub.OpenReader(principal.ReadProjector)
	check(t, err)
	defer nc.Close()
	r, err := projector.NewRunner(projector.Config{DB: db, Source: source{s}, Projections: view.All()})
	check(t, err)
	check(t, errors.Join(r.CatchUp(context.Background(), 0), db.Close()))
}

type source struct{ *stream.Stream }

func (s source) Head(ctx context.Context) (ledger.Seq, error) {
	h, err := s.Stream.Head(ctx)
	return h.Last, err
}

func (l *lab) read(t testing.TB) {
	t.Helper()
	l.bodies, l.kept = nil, nil
	anchor, err := node.LoadAnchor(node.AnchorConfig{Dir: l.dir})
	check(t, err)
	e, err := node.OpenEvidence(context.Background(), node.EvidenceConfig{Dir: l.dir})
	check(t, err)
	defer e.Close()
	head, err := e.Head(context.Background())
	check(t, err)
	check(t, e.Read(context.Background(), 1, head, func(_ ledger.Seq, b []byte) error {
		l.bodies = append(l.bodies, bytes.Clone(b))
		return nil
	}))
	report, err := node.Verify(context.Background(), e, anchor, nil)
	check(t, err)
	l.pin, err = node.Remember(filepath.Join(t.TempDir(), "pin"), nil, anchor, report)
	check(t, err)
	if l.pin == nil || l.pin.Size != uint64(head) {
		t.Fatalf("the lab's ledger is %s", report.Verdict)
	}
	for _, cp := range anchor.Signed {
		l.kept = append(l.kept, cp.Size)
	}
	slices.Sort(l.kept)
}

// behind is the first record that the last good checkpoint before seq leaves
// open: where a rewrite that reaches seq is noticed.
func (l *lab) behind(seq int) int {
	good := 0
	for _, size := range l.kept {
		if int(size) < seq {
			good = int(size)
		}
	}
	return good + 1
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func copyDir(t testing.TB, from, to node.Dir) {
	t.Helper()
	check(t, os.RemoveAll(string(to)))
	check(t, os.CopyFS(string(to), os.DirFS(string(from))))
}

// bench is a copy that is tampered with.
type bench struct {
	*lab
	t   testing.TB
	dir node.Dir
}

func (b *bench) path(names ...string) string {
	return filepath.Join(append([]string{string(b.dir)}, names...)...)
}

func (b *bench) msgs() string {
	return b.path("broker", "jetstream", "STORE", "streams", "LEDGER", "msgs")
}

func (b *bench) checkpoint(name string) string { return b.path("logger", "checkpoint", name) }

func (b *bench) write(path string, data []byte) {
	b.t.Helper()
	check(b.t, os.WriteFile(path, data, 0o600))
}

func (b *bench) readFile(path string) []byte {
	b.t.Helper()
	raw, err := os.ReadFile(path)
	check(b.t, err)
	return raw
}

func (b *bench) flip(path string, at int) {
	b.t.Helper()
	raw := b.readFile(path)
	raw[at] ^= 1
	b.write(path, raw)
}

// exchange puts another base64 digit in the place of one.
func (b *bench) exchange(path string, at int) {
	b.t.Helper()
	raw := b.readFile(path)
	if raw[at] == 'A' {
		raw[at] = 'B'
	} else {
		raw[at] = 'A'
	}
	b.write(path, raw)
}

// store makes the broker's store hold these messages, as somebody would who
// knows the broker's formats and checksums.
func (b *bench) store(bodies [][]byte) {
	b.t.Helper()
	check(b.t, os.RemoveAll(b.path("broker", "jetstream")))
	srv, err := broker.Start(broker.Config{Dir: string(b.dir), Log: zerolog.Nop()})
	check(b.t, err)
	hub := node.EmbeddedHub(srv, b.dir.Creds())
	as := func(user string) principal.Credential {
		c, err := principal.LoadCredential(principal.CredentialPath(b.offline, user))
		check(b.t, err)
		return c
	}
	store, err := hub.DialAs(as(principal.BootstrapStore), false)
	check(b.t, err)
	telemetry, err := hub.DialAs(as(principal.BootstrapTelemetry), false)
	check(b.t, err)
	check(b.t, broker.CreateStreams(context.Background(), store, telemetry, 1))
	store.Close()
	telemetry.Close()
	writer, err := hub.Connect(principal.LoggerStore)
	check(b.t, err)
	s, err := stream.New(writer, stream.Config{})
	check(b.t, err)
	for i, body := range bodies {
		check(b.t, s.Append(context.Background(), ledger.Seq(i+1), []stream.Message{{Subject: stream.SubjectPrefix + "x.y", Body: body}}))
	}
	writer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	check(b.t, srv.Stop(ctx))
}

// views changes the stored views.
func (b *bench) views(fn func(db *kv.DB, batch *kv.Batch)) {
	b.t.Helper()
	db, err := kv.Open(b.dir.Views(), kv.Options{})
	check(b.t, err)
	batch := db.NewBatch()
	fn(db, batch)
	check(b.t, errors.Join(batch.Commit(true), batch.Close(), db.Close()))
}

// seen is what each of those who look say.
type seen struct {
	verify string // verdict, or failed check and first bad position
	pin    string // the same by one who remembers the newest head
	logger string // what a logger does that is started on it
	views  string // what a projector does
	replay string // whether a rebuild equals the stored views
}

func (s seen) cells() []string { return []string{s.verify, s.pin, s.logger, s.views, s.replay} }

// look asks everyone. Verify and replay read one copy of the store, as each of
// them does alone.
func (b *bench) look() seen {
	b.t.Helper()
	e, err := node.OpenEvidence(b.t.Context(), node.EvidenceConfig{Dir: b.dir})
	check(b.t, err)
	defer e.Close()
	return seen{b.verify(e, nil), b.verify(e, b.pin), b.startLogger(), b.project(), b.replay(e)}
}

func (b *bench) verify(e node.Evidence, pin *node.Pin) string {
	b.t.Helper()
	anchor, err := node.LoadAnchor(node.AnchorConfig{Dir: b.dir, Pin: pin})
	check(b.t, err)
	r, err := node.Verify(b.t.Context(), e, anchor, nil)
	check(b.t, err)
	if r.Verdict != ledger.Inconsistent {
		return string(r.Verdict)
	}
	// The message names the place as well: the record, or for what is wrong with
	// a checkpoint the file or its size.
	place := fmt.Sprint(*r.FirstBadSeq)
	switch *r.FailedCheck {
	case ledger.CheckSignature, ledger.CheckCheckpoint:
		place = "checkpoint"
	case ledger.CheckFork:
		place = fmt.Sprint(*r.FirstBadSeq - 1) // "behind record"
		if strings.Contains(*r.Finding, "position") {
			place = fmt.Sprint(*r.FirstBadSeq)
		}
	}
	if !strings.Contains(*r.Finding, place) {
		b.t.Errorf("the finding does not name %s: %s", place, *r.Finding)
	}
	return fmt.Sprintf("%s %d", *r.FailedCheck, *r.FirstBadSeq)
}

func (b *bench) serve(fn func(hub *node.Hub) error) error {
	b.t.Helper()
	srv, err := broker.Start(broker.Config{Dir: string(b.dir), Log: zerolog.Nop()})
	check(b.t, err)
	err = fn(node.EmbeddedHub(srv, b.dir.Creds()))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	check(b.t, srv.Stop(ctx))
	return err
}

// startLogger starts a logger on a copy of the copy: what it appends is not for
// the others to see.
func (b *bench) startLogger() string {
	b.t.Helper()
	own := &bench{b.lab, b.t, b.dir + ".logger"}
	copyDir(b.t, b.dir, own.dir)
	defer os.RemoveAll(string(own.dir))
	err := own.serve(func(hub *node.Hub) error {
		ctx, cancel := context.WithCancel(context.Background())
		l, err := node.StartLogger(ctx, hub, node.UpConfig{Dir: own.dir, Software: "test", Log: zerolog.Nop()})
		if err != nil {
			cancel()
			return err
		}
		status := l.StatusOf()
		cancel()
		if err := l.Wait(); err != nil {
			return err
		}
		switch {
		case status.State == logger.ForeignIn:
			return errForeign
		case status.Warning != "":
			return errWarns
		}
		return nil
	})
	for _, kind := range []struct {
		err  error
		name string
	}{
		{nil, "serves"}, {errWarns, "serves, warns"}, {errForeign, "waits for an acknowledgement"}, {logger.ErrFork, "fork"}, {logger.ErrBehind, "behind"}, {ledger.ErrCorrupt, "corrupt"},
		{logger.ErrNoCheckpoint, "no checkpoint"}, {logger.ErrNotInitialised, "not initialised"}, {node.ErrNotInitialised, "no stream"},
		{ledger.ErrBadCheckpoint, "bad checkpoint"}, {logger.ErrFenced, "fenced"},
	} {
		if err == nil && kind.err == nil || err != nil && kind.err != nil && errors.Is(err, kind.err) {
			return kind.name
		}
	}
	return "error: " + err.Error()
}

var (
	errForeign = errors.New("foreign")
	errWarns   = errors.New("warns")
)

// project goes on folding from where the stored views stand.
func (b *bench) project() string {
	b.t.Helper()
	own := &bench{b.lab, b.t, b.dir + ".views"}
	copyDir(b.t, b.dir, own.dir)
	defer os.RemoveAll(string(own.dir))
	err := own.serve(func(hub *node.Hub) error {
		db, err := kv.Open(own.dir.Views(), kv.Options{})
		if err != nil {
			return err
		}
		s, nc, err := hub.OpenReader(principal.ReadProjector)
		if err != nil {
			return errors.Join(err, db.Close())
		}
		defer nc.Close()
		r, err := projector.NewRunner(projector.Config{DB: db, Source: source{s}, Projections: view.All()})
		if err == nil {
			err = r.CatchUp(context.Background(), 0)
		}
		return errors.Join(err, db.Close())
	})
	return linkOutcome(err)
}

func linkOutcome(err error) string {
	if err == nil {
		return "goes on"
	}
	if unreadable(err) {
		return "unreadable"
	}
	var link *projector.LinkError
	at := ""
	if errors.As(err, &link) {
		at = fmt.Sprintf(" %d", link.Seq)
	}
	for _, kind := range []struct {
		err  error
		name string
	}{
		{projector.ErrGap, "gap"}, {projector.ErrFork, "fork"}, {projector.ErrAhead, "ahead"}, {projector.ErrCorrupt, "corrupt"}, {stream.ErrNoStream, "no stream"},
		{ledger.ErrBadFrontier, "corrupt"},
	} {
		if errors.Is(err, kind.err) {
			return kind.name + at
		}
	}
	return "error: " + err.Error()
}

// replay rebuilds the views and compares them with the stored ones.
func (b *bench) replay(e node.Evidence) string {
	b.t.Helper()
	var live projector.Digest
	err := node.OpenViews(b.dir, func(s *projector.State) (err error) {
		live, err = s.Digest()
		return err
	})
	if errors.Is(err, node.ErrNoViews) {
		return "no views"
	}
	if errors.Is(err, projector.ErrUneven) {
		return "uneven"
	}
	if unreadable(err) {
		return "unreadable"
	}
	if err != nil {
		return "error: " + err.Error()
	}
	got, err := node.Replay(context.Background(), node.FoldConfig{Evidence: e, To: live.Seq, Log: zerolog.Nop()}, nil)
	switch {
	case err != nil:
		return linkOutcome(err)
	case got.SHA256 == live.SHA256 && got.Seq == live.Seq:
		return "match"
	}
	return "differs"
}

// unreadable says that the store of the views refused its own file.
func unreadable(err error) bool {
	return err != nil && strings.Contains(err.Error(), "checksum mismatch")
}
