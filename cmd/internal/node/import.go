package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"assay/events/importer"
	"assay/events/publish"
	"assay/internal/blob"
	"assay/internal/principal"
	"assay/projector"
	"assay/schema"
)

// A batch of an import, at most.
const (
	importEvents = 1000
	importBytes  = 1 << 20
)

// maxRefusals is how many refused events a report lists; all are counted.
const maxRefusals = 100

// ImportConfig says as whom is imported, and from what format.
type ImportConfig struct {
	Dir       Dir
	Principal principal.Principal
	Format    string
	// Client publishes as Principal. Nil: nothing is sent and no content is kept, and
	// Show is given the events.
	Client *publish.Client
	Show   func(e importer.Event) error
	// Patience is how long is waited for the receipts of one batch.
	Patience time.Duration
}

// Imported is what became of one file.
type Imported struct {
	Source string `json:"source"`
	importer.Report
	// New counts events that the ledger did not hold before; Already those that it did
	// hold, of which the first receipts came again. Null where the principal is not told
	// positions, or no logger of this host says how far the ledger was.
	New     *int64           `json:"new"`
	Already *int64           `json:"already"`
	Refused map[string]int64 `json:"refused"` // by the code of the refusal
	Refusal []Refused        `json:"refusals"`
	// Kept counts blobs that were stored; Erased is content that was not stored again
	// since an operator had it erased.
	Kept   int64 `json:"kept"`
	Erased int64 `json:"erased"`
}

// Refused is an event that the ledger did not take.
type Refused struct {
	Line    int64            `json:"line"`
	Type    string           `json:"type"`
	Refusal *publish.Refusal `json:"error"`
}

// Good says that every line was read and every event taken.
func (i *Imported) Good() bool { return i.Count() == 0 && len(i.Refused) == 0 }

// Importer imports files, one after the other.
type Importer struct {
	cfg   ImportConfig
	store *blob.Store
	cred  principal.Credential
	// head is the highest position that is known to have been there before the next
	// event; nil where it is not known.
	head *uint64
}

// NewImporter opens what an import needs beside its client.
func NewImporter(ctx context.Context, cfg ImportConfig) (*Importer, error) {
	im := &Importer{cfg: cfg}
	if cfg.Client == nil {
		return im, nil
	}
	var err error
	if im.store, err = blob.OpenExisting(cfg.Dir.Blobs()); err != nil {
		return nil, err
	}
	if im.cred, err = principal.LoadCredential(principal.CredentialPath(cfg.Dir.Creds(), cfg.Principal.User())); err != nil {
		return nil, err
	}
	running, err := AskServices(ctx, cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, r := range running {
		if r.Status.Logger != nil && cfg.Principal.ReceiptsSeq {
			im.head = &r.Status.Logger.Size
		}
	}
	return im, nil
}

// Import reads one file to its end. The source is its name. Beside an error the rest
// tells how far it came; the same import again goes on from there.
func (im *Importer) Import(ctx context.Context, source string, in io.Reader) (*Imported, error) {
	out := &Imported{Source: source, Refused: map[string]int64{}, Refusal: []Refused{}}
	if im.head != nil {
		out.New, out.Already = new(int64), new(int64)
	}
	role := schema.Role(im.cfg.Principal.Role)
	cfg := importer.Config{
		Format: im.cfg.Format, Source: source,
		May: func(typ string) bool { return schema.MayWrite(role, typ, im.cfg.Principal.Namespace) },
		Put: im.cfg.Show,
	}
	var err error
	if im.cfg.Client == nil {
		out.Report, err = importer.Read(in, cfg)
		return out, err
	}
	cfg.Keep = func(content string) (string, error) { return im.keep(ctx, out, []byte(content)) }
	// One batch is under way while the next is made, so that the order stays.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	batches := make(chan []importer.Event)
	done := make(chan error, 1)
	go func() {
		var err error
		for batch := range batches {
			if err = im.publish(ctx, out, batch); err != nil {
				cancel(err)
				break
			}
		}
		done <- err
	}()
	var batch []importer.Event
	size := 0
	send := func() error {
		if len(batch) == 0 {
			return nil
		}
		select {
		case batches <- batch:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		batch, size = nil, 0
		return nil
	}
	cfg.Put = func(e importer.Event) error {
		if size += len(e.Raw); len(batch) == importEvents || size > importBytes {
			if err := send(); err != nil {
				return err
			}
			size = len(e.Raw)
		}
		batch = append(batch, e)
		return nil
	}
	out.Report, err = importer.Read(in, cfg)
	if err == nil {
		err = send()
	}
	close(batches)
	if perr := <-done; perr != nil {
		err = perr
	}
	return out, err
}

// publish sends a batch and counts the answers.
func (im *Importer) publish(ctx context.Context, out *Imported, batch []importer.Event) error {
	ctx, cancel := context.WithTimeout(ctx, im.cfg.Patience)
	defer cancel()
	raw := make([][]byte, len(batch))
	for i, e := range batch {
		raw[i] = e.Raw
	}
	answers, err := im.cfg.Client.PublishBatch(ctx, raw)
	if err != nil {
		return fmt.Errorf("import of %s: %w", out.Source, err)
	}
	for i, a := range answers {
		switch {
		case a.Refusal != nil:
			out.Refused[a.Refusal.Code]++
			if len(out.Refusal) < maxRefusals {
				out.Refusal = append(out.Refusal, Refused{batch[i].Line, batch[i].Type, a.Refusal})
			}
		case im.head == nil || a.Seq == nil:
			out.New, out.Already = nil, nil
		case out.New == nil:
		case *a.Seq <= *im.head:
			*out.Already++
		default:
			*out.New++
			*im.head = *a.Seq
		}
	}
	return nil
}

// keep stores content under a name that is the same at every import by this principal,
// and that nobody without its key can guess the content from. What was erased stays so.
func (im *Importer) keep(ctx context.Context, out *Imported, content []byte) (ref string, err error) {
	sum := sha256.Sum256(content)
	signed, err := im.cred.Sign(append([]byte("assay import salt 1\x00"), sum[:]...))
	if err != nil {
		return "", err
	}
	salt := sha256.Sum256(signed)
	name := blob.ContentName(content, salt[:])
	ref = blob.Ref(name)
	switch _, err := im.store.Size(name); {
	case err == nil:
		return ref, nil
	case !errors.Is(err, blob.ErrNotFound):
		return "", err
	}
	known, err := AskViews(ctx, im.cfg.Dir, "/blob", url.Values{"ref": {ref}}, func(s *projector.State) (BlobStatus, error) {
		return StatBlob(im.cfg.Dir, s, ref)
	})
	switch {
	case errors.Is(err, ErrNoViews): // nothing was ever erased that a view would know of
	case err != nil:
		return "", err
	case known.Erased != nil:
		out.Erased++
		return ref, nil
	}
	if _, _, err = im.store.PutContent(bytes.NewReader(content), bytes.NewReader(salt[:])); err != nil {
		return "", err
	}
	out.Kept++
	return ref, nil
}
