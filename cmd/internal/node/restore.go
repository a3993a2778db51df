package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"golang.org/x/mod/sumdb/note"

	"assay/cmd/internal/backup"
	"assay/internal/blob"
	"assay/internal/durable"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/logger"
	"assay/ledger/stream"
)

var (
	// ErrBackupDamaged means that a backup is not what was backed up.
	ErrBackupDamaged = errors.New("the backup is not whole")
	// ErrOlder means that records are known which the backup does not hold.
	ErrOlder = errors.New("the backup is older than what is known of the ledger")
	// ErrOtherLedger means that the directory holds something that the backup
	// does not go with.
	ErrOtherLedger = errors.New("the directory holds another ledger")
)

// RestoreConfig says what to restore, and where to.
type RestoreConfig struct {
	Dir Dir
	Src string
	// NATS is the external broker or the cluster that gets the records; "" is
	// the cluster that DIR is of, or the backup if DIR is new, else the broker
	// embedded in DIR.
	NATS string
	// Embedded restores the backup of a cluster to the broker embedded in DIR, which
	// must not be of a cluster itself.
	Embedded bool
	// OfflineDir has the bootstrap seeds, which make the streams.
	OfflineDir string
	// Key is the log's pinned verifier key; "" takes DIR's, then the backup's own.
	Key string
	// Digest is that of the backup's manifest, kept elsewhere; "" for unknown.
	Digest string
	// Known are heads of the ledger that somebody remembers, with their notes.
	Known []ledger.SignedCheckpoint
	// AcceptLoss restores a backup that is older than what is known and
	// declares the loss, in the name of As.
	AcceptLoss bool
	As         string
	Software   string
	Log        zerolog.Logger
	Progress   func(what string, done, total uint64)
}

// Restored is what Restore did.
type Restored struct {
	Dir     string `json:"dir"`
	Origin  string `json:"origin"`
	Size    uint64 `json:"size"`     // records of the backup
	Written uint64 `json:"appended"` // of them, now
	Blobs   int    `json:"blobs"`    // put back
	Erased  int    `json:"erased"`   // left out, since the ledger says that they were erased
	// KeyFrom says where the trusted key came from: given, directory or backup.
	// One from the backup proves nothing against who could rewrite all of it.
	KeyFrom string `json:"key_from"`
	// Renewed are the service users that got a new credential.
	Renewed []string `json:"renewed"`
	// ReadOnly: the log's signing key is neither in the backup nor in DIR.
	ReadOnly bool          `json:"read_only"`
	Loss     *ledger.Loss  `json:"loss"` // null when nothing is known to be lost
	Report   ledger.Report `json:"report"`
}

// Restore brings a ledger back from a backup. It checks the backup, then puts
// back configuration, blobs and records, each record at its own place with its
// own bytes, and checks the result. What DIR has already is kept, and must be
// what the backup has where the two hold the same thing.
//
// While it is under way the file that logger.Files.Restoring names keeps the
// logger from starting. Cut off, it goes on when called again.
func Restore(ctx context.Context, c RestoreConfig) (Restored, error) {
	r, err := newRestore(c)
	if err != nil {
		return Restored{}, err
	}
	for _, step := range r.before() {
		if err := step(ctx); err != nil {
			return r.out, err
		}
	}
	return r.out, r.onBroker(ctx, r.after())
}

func newRestore(c RestoreConfig) (*restore, error) {
	abs, err := filepath.Abs(string(c.Dir))
	if err != nil {
		return nil, err
	}
	c.Dir = Dir(abs)
	r := &restore{RestoreConfig: c}
	if r.backup, err = backup.Open(c.Src); err != nil {
		return nil, err
	}
	if c.Digest != "" && c.Digest != r.backup.Digest {
		return nil, fmt.Errorf("%w: its manifest is %s, not %s", ErrBackupDamaged, r.backup.Digest, c.Digest)
	}
	r.out = Restored{Dir: abs, Origin: r.backup.Manifest.Origin, Size: r.size(), Renewed: []string{}}
	return r, nil
}

type restore struct {
	RestoreConfig
	backup *backup.Backup
	out    Restored
	erased map[string]bool
	within []ledger.SignedCheckpoint // known heads that the backup reaches
	began  *restoring                // by a restore that was cut off; nil for none
	loss   *logger.Loss
}

// before are the steps without a broker. Nothing is changed before prepare.
func (r *restore) before() []func(context.Context) error {
	return []func(context.Context) error{r.checkBroker, r.chooseKey, r.checkIdle, r.findLoss, r.checkSeeds, r.check, r.prepare, r.putBlobs}
}

// after are the steps that need DIR's broker.
func (r *restore) after() []func(context.Context, *stream.Stream) error {
	return []func(context.Context, *stream.Stream) error{r.appendRecords, r.putCheckpoints, r.declare, r.audit, r.unmark}
}

func (r *restore) size() uint64 { return r.backup.Manifest.Size }

func (r *restore) progress(what string) func(done, total uint64) {
	return func(done, total uint64) {
		if r.Progress != nil {
			r.Progress(what, done, total)
		}
	}
}

// checkBroker refuses to restore to a broker that DIR cannot have.
func (r *restore) checkBroker(context.Context) error {
	if !r.Embedded {
		return nil
	}
	cluster := broker.Dir(r.Dir).Cluster()
	_, err := os.Stat(cluster)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w, as %s says: restore to one broker in a new directory", broker.ErrClustered, cluster)
}

// chooseKey finds the key to hold the backup against.
func (r *restore) chooseKey(context.Context) error {
	own, err := r.backup.File("logger/key.pub")
	if err != nil {
		return err
	}
	there, err := os.ReadFile(r.Dir.Logger().PublicKey())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && !bytes.Equal(bytes.TrimSpace(there), bytes.TrimSpace(own)) {
		return fmt.Errorf("%w: its key is %s, the backup's %s", ErrOtherLedger, bytes.TrimSpace(there), bytes.TrimSpace(own))
	}
	switch {
	case r.Key != "":
		r.out.KeyFrom = "given"
		r.Key, err = parseKey(r.Key)
		return err
	case len(there) > 0:
		r.out.KeyFrom = "directory"
	default:
		r.out.KeyFrom = "backup"
	}
	r.Key = strings.TrimSpace(string(own))
	return nil
}

// checkIdle refuses a directory that services run on.
func (r *restore) checkIdle(context.Context) error {
	if err := r.Dir.whileIdle(func() error { return nil }); err != nil {
		return explain(err)
	}
	return nil
}

// checkSeeds looks for the seeds that make the streams, before anything is
// changed.
func (r *restore) checkSeeds(context.Context) error {
	raw, err := os.ReadFile(principal.Dir(r.Dir).Services())
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = r.backup.File("broker/services.json")
	}
	if err != nil {
		return err
	}
	services, err := principal.DecodeServices(raw)
	if err != nil {
		return err
	}
	for _, user := range []string{principal.BootstrapStore, principal.BootstrapTelemetry} {
		c, err := bootstrapSeed(r.OfflineDir, user)
		if err != nil {
			return err
		}
		if c.Public != services.Users[user] {
			return fmt.Errorf("the seed of %s in %s is another ledger's", user, r.OfflineDir)
		}
	}
	return nil
}

// findLoss compares the backup with the largest end of the ledger that is known:
// from DIR's checkpoints, its index, and what the caller remembers.
func (r *restore) findLoss(context.Context) error {
	mine, err := logger.ReadCheckpoints(r.Dir.Logger())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if r.began, err = r.Dir.restoring(); err != nil {
		return err
	}
	if r.began != nil && r.began.Loss != nil && r.began.Loss.KnownSize > r.size() {
		r.loss = r.began.Loss
	}
	for _, cp := range append(mine, r.Known...) {
		if cp.Size <= r.size() {
			r.within = append(r.within, cp)
			continue
		}
		if err := r.signed(cp); err != nil {
			return fmt.Errorf("a checkpoint of %d records: %w", cp.Size, err)
		}
		if r.loss == nil || cp.Size > r.loss.KnownSize {
			r.loss = &logger.Loss{KnownSize: cp.Size, KnownRoot: cp.Root, Checkpoint: cp.Raw}
		}
	}
	size, root, err := logger.KnownHead(r.Dir.Logger())
	if err != nil {
		return err
	}
	if size > r.size() && r.loss == nil {
		// Acked, but not signed yet.
		r.loss = &logger.Loss{KnownSize: size, KnownRoot: root}
	}
	if r.loss == nil {
		return nil
	}
	r.loss.Size, r.loss.AcceptedBy = r.size(), r.As
	if !r.AcceptLoss {
		return fmt.Errorf("%w: it holds %d records, %d are known: records %d to %d would be lost (--accept-loss records that)",
			ErrOlder, r.size(), r.loss.KnownSize, r.size()+1, r.loss.KnownSize)
	}
	return nil
}

// signed checks a checkpoint beyond the backup: with the trusted key or, if that
// was replaced since, with the backup's own.
func (r *restore) signed(cp ledger.SignedCheckpoint) (err error) {
	own, err := r.backup.File("logger/key.pub")
	if err != nil {
		return err
	}
	for _, text := range []string{r.Key, string(own)} {
		var key note.Verifier
		if key, err = note.NewVerifier(strings.TrimSpace(text)); err != nil {
			return err
		}
		if _, err = ledger.OpenCheckpoint(cp.Raw, key); err == nil {
			return nil
		}
	}
	return err
}

// check refuses a backup that is not whole.
func (r *restore) check(ctx context.Context) error {
	found, err := r.backup.Check(ctx, backup.CheckConfig{Key: r.Key, Known: r.within, Progress: r.progress("checking the backup")})
	if err != nil {
		return err
	}
	if n := len(found.Findings); n > 0 {
		return fmt.Errorf("%w: %d findings: %s", ErrBackupDamaged, n, strings.Join(found.Findings[:min(n, 10)], "; "))
	}
	r.erased = found.Erased
	return nil
}

// prepare marks the directory and puts back what it lacks of the files.
// Checkpoints come last of all: with one, the logger would start.
func (r *restore) prepare(context.Context) error {
	for _, dir := range []string{string(r.Dir), r.Dir.Blobs(), r.Dir.Views(), r.Dir.Snapshots(), r.Dir.Run(), r.Dir.Creds(), r.Dir.join("broker"), r.Dir.Logger().Lost()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := r.mark(r.began != nil && r.began.Aside); err != nil {
		return err
	}
	alone, err := r.alone()
	if err != nil {
		return err
	}
	for _, f := range r.backup.Manifest.Files {
		if backup.IsCheckpoint(f.Path) || alone && (f.Path == clusterFile || f.Path == clusterSecretFile) {
			continue
		}
		if err := r.putFile(f.Path, false); err != nil {
			return err
		}
	}
	_, err = os.Stat(r.Dir.Logger().Key())
	r.out.ReadOnly = errors.Is(err, fs.ErrNotExist)
	if r.out.ReadOnly && r.loss != nil {
		return fmt.Errorf("a loss is declared in a record, and its checkpoint signed: %w", logger.ErrNoKey)
	}
	if r.out.Renewed, err = principal.Dir(r.Dir).RenewServices(); err != nil {
		return err
	}
	_, err = broker.WriteConfig(string(r.Dir))
	return err
}

// putFile puts a file back; one that is there stays unless replace says so.
func (r *restore) putFile(path string, replace bool) error {
	data, err := r.backup.File(path)
	if err != nil {
		return err
	}
	to := r.Dir.join(filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if path == clusterFile {
		mode = 0o640
	}
	if strings.HasSuffix(path, "key.pub") || strings.HasPrefix(path, "logger/checkpoint/") || path == "registry.json" {
		mode = 0o644
	}
	if replace {
		return durable.WriteFile(to, data, mode)
	}
	if err := durable.CreateFile(to, data, mode); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// alone says whether the cluster of the backup is left out: DIR has another one or
// a broker of its own, or the records go elsewhere.
func (r *restore) alone() (bool, error) {
	if r.NATS != "" || r.Embedded {
		return true, nil
	}
	to := broker.Dir(r.Dir)
	for _, there := range []string{to.Cluster(), filepath.Join(to.Store(), "jetstream")} {
		if _, err := os.Stat(there); !errors.Is(err, fs.ErrNotExist) {
			return true, err
		}
	}
	return false, nil
}

// putBlobs puts the blobs back, but for those that the ledger says were erased.
func (r *restore) putBlobs(ctx context.Context) error {
	store, err := blob.Open(r.Dir.Blobs())
	if err != nil {
		return err
	}
	for _, b := range r.backup.Manifest.Blobs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.erased[b.SHA256] {
			r.out.Erased++
			continue
		}
		if _, err := store.Check(b.SHA256); err == nil {
			continue
		}
		if err := store.Import(r.backup.Blobs, b.SHA256); err != nil {
			return err
		}
		r.out.Blobs++
	}
	return nil
}

// onBroker takes steps with the stream, made if need be.
func (r *restore) onBroker(ctx context.Context, steps []func(context.Context, *stream.Stream) error) error {
	err := onBroker(ctx, r.Dir, r.NATS, r.Log, func(hub *Hub, s *stream.Stream) error {
		if err := createStreams(ctx, hub, r.OfflineDir); err != nil {
			return err
		}
		for _, step := range steps {
			if err := step(ctx, s); err != nil {
				return err
			}
		}
		return nil
	})
	if cluster, _ := broker.LoadCluster(string(r.Dir)); r.NATS == "" && cluster != nil && errors.Is(err, nats.ErrNoServers) {
		return fmt.Errorf("%w: none of the cluster's brokers answers; copy %s to their hosts, start them, and restore again", err, r.Dir.join("nodes"))
	}
	return err
}

// putCheckpoints puts the backup's checkpoints back. Those of lost records go
// aside, the index and views that know them go: both are made anew.
func (r *restore) putCheckpoints(context.Context, *stream.Stream) error {
	files := r.Dir.Logger()
	if r.loss != nil {
		if r.began == nil || !r.began.Aside {
			if err := r.setAside(); err != nil {
				return err
			}
		}
		if err := logger.ForgetIndex(files); err != nil {
			return err
		}
		if err := errors.Join(os.RemoveAll(r.Dir.Views()), os.Mkdir(r.Dir.Views(), 0o700)); err != nil {
			return err
		}
	}
	newest, err := logger.ReadCheckpoints(files) // the largest first
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range r.backup.Manifest.Files {
		if !backup.IsCheckpoint(f.Path) {
			continue
		}
		// DIR's latest may be of the same size, but not of a smaller one.
		replace := f.Path == "logger/checkpoint/latest" && (len(newest) == 0 || newest[0].Size < r.size())
		if err := r.putFile(f.Path, replace); err != nil {
			return err
		}
	}
	return nil
}

// setAside moves the checkpoints of lost records to lost/.
func (r *restore) setAside() error {
	files := r.Dir.Logger()
	if len(r.loss.Checkpoint) > 0 {
		name := fmt.Sprintf("%d", r.loss.KnownSize)
		if err := durable.WriteFile(filepath.Join(files.Lost(), name), r.loss.Checkpoint, 0o644); err != nil {
			return err
		}
	}
	names, err := r.Dir.below("logger/checkpoint", "")
	if err != nil {
		return err
	}
	for _, p := range names {
		raw, err := os.ReadFile(r.Dir.join(filepath.FromSlash(p)))
		if err != nil {
			return err
		}
		cp, err := ledger.ParseCheckpoint(raw)
		if err != nil || cp.Size <= r.size() {
			continue
		}
		if err := durable.WriteFile(filepath.Join(files.Lost(), fmt.Sprintf("%d", cp.Size)), raw, 0o644); err != nil {
			return err
		}
		if err := os.Remove(r.Dir.join(filepath.FromSlash(p))); err != nil {
			return err
		}
	}
	if err := durable.SyncDir(files.Checkpoints()); err != nil {
		return err
	}
	// From here on one of more records than the backup's signs the declaration.
	return r.mark(true)
}

// declare records what is lost.
func (r *restore) declare(ctx context.Context, s *stream.Stream) error {
	if r.loss == nil {
		return nil
	}
	return logger.Restored(ctx, logger.Config{Dir: string(r.Dir.Logger()), Stream: s, Software: r.Software, Log: r.Log}, *r.loss)
}

// audit verifies what was restored.
func (r *restore) audit(ctx context.Context, s *stream.Stream) error {
	anchor, err := LoadAnchor(AnchorConfig{Dir: r.Dir, Key: r.Key})
	if err != nil {
		return err
	}
	r.out.Report, err = Verify(ctx, &streamEvidence{Stream: s}, anchor, func(done, total ledger.Seq) {
		r.progress("verifying")(uint64(done), uint64(total))
	})
	if err != nil {
		return err
	}
	if r.out.Report.Verdict != ledger.Consistent {
		finding := ""
		if r.out.Report.Finding != nil {
			finding = *r.out.Report.Finding
		}
		return fmt.Errorf("the restored ledger is %s: %s", r.out.Report.Verdict, finding)
	}
	for _, l := range r.out.Report.Losses {
		if r.loss != nil && l.Size == r.loss.Size {
			r.out.Loss = &l
		}
	}
	return nil
}
