package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"assay/ledger"
)

var (
	// ErrConflict means that the witness cosigned another size last; the
	// *ConflictError tells which.
	ErrConflict = errors.New("the witness knows another size of this log")
	// ErrForked means that the witness cosigned another root of the same size.
	ErrForked = errors.New("the witness knows another root of this size")
	// ErrRefused means that the witness answered with another refusal, which
	// the *RefusedError tells: it does not trust the log's key, say, or the
	// proof did not convince it.
	ErrRefused = errors.New("the witness refused the checkpoint")
	// ErrBadAnswer means that what the witness answered is no cosignature by
	// its key on this checkpoint.
	ErrBadAnswer = errors.New("the witness's answer has no cosignature by its key")
)

// ConflictError is ErrConflict with the size that the witness cosigned last.
type ConflictError struct{ Size uint64 }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%v: %d", ErrConflict, e.Size)
}

func (e *ConflictError) Unwrap() error { return ErrConflict }

// RefusedError is ErrRefused with the HTTP status, and the beginning of what
// the witness says about it.
type RefusedError struct {
	Status int
	Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%v: %d: %q", ErrRefused, e.Status, e.Reason)
}

func (e *RefusedError) Unwrap() error { return ErrRefused }

const (
	// maxAnswer and maxLines bound what is read of a witness that rambles.
	maxAnswer = 64 << 10
	maxLines  = 16
	// maxReason is how much of a refusal's text is kept.
	maxReason = 200
)

// Client asks one witness.
type Client struct {
	// URL is the submission prefix.
	URL string
	// Verifier is the witness's key, from the policy.
	Verifier note.Verifier
	// HTTP sends the requests; nil is http.DefaultClient. Redirects should not
	// be followed: a witness has no reason to send a log elsewhere.
	HTTP *http.Client
}

// AddCheckpoint submits a signed checkpoint with the proof from the size that
// the witness is believed to know, and returns the signature line that verifies
// under the witness's key, and nothing else of the answer. ctx bounds it.
func (c *Client) AddCheckpoint(ctx context.Context, proof ledger.ConsistencyProof) ([]byte, error) {
	url := strings.TrimSuffix(c.URL, "/") + "/add-checkpoint"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(proof.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the witness's answer: %w", err)
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return c.keep(proof.Checkpoint, body)
	case http.StatusConflict:
		return nil, conflict(resp.Header.Get("Content-Type"), body)
	}
	reason := strings.TrimSpace(string(body[:min(len(body), maxReason)]))
	return nil, &RefusedError{resp.StatusCode, reason}
}

// conflict tells the two meanings of 409 apart.
func conflict(contentType string, body []byte) error {
	if t, _, err := mime.ParseMediaType(contentType); err != nil || t != sizeType {
		return ErrForked
	}
	text := strings.TrimSuffix(string(body), "\n")
	size, err := strconv.ParseUint(text, 10, 64)
	if err != nil || strconv.FormatUint(size, 10) != text || size > ledger.MaxSize {
		return fmt.Errorf("%w: a conflict with the size %.32q", ErrBadAnswer, text)
	}
	return &ConflictError{size}
}

// keep returns the line that is a signature of the witness's key on the
// checkpoint.
func (c *Client) keep(checkpoint, answer []byte) ([]byte, error) {
	end := bytes.LastIndex(checkpoint, []byte("\n\n"))
	if end < 0 {
		return nil, errors.New("the checkpoint is no signed note")
	}
	text := checkpoint[:end+2]
	for i, line := range strings.SplitAfter(string(answer), "\n") {
		if line == "" || i == maxLines {
			break
		}
		// Each line alone, so that one bad signature does not hide a good one.
		alone := append(bytes.Clone(text), line...)
		if n, err := note.Open(alone, note.VerifierList(c.Verifier)); err == nil && string(n.Text)+"\n" == string(text) {
			return []byte(line), nil
		}
	}
	return nil, ErrBadAnswer
}
