// Package stream appends records to the LEDGER stream and reads them back. It
// is the only place where the record meets JetStream.
//
// What an append's outcome means, tried on nats-server 2.15.3:
//
//   - An ack means that the broker fsynced the message or the whole batch
//     (sync_interval always).
//   - ErrWrongSequence means that the stream did not end where the append
//     expected; nothing of this attempt was stored, but an earlier attempt of
//     the same bytes may have been: compare leaf hashes.
//   - Anything else is ErrUndecided: none, all, or after a disk error a prefix
//     may be stored, perhaps a moment after a read that misses it. Only
//     resending identical bytes at the same position settles it.
//
// A stream with copies on several servers has a leader. While it has none, or one
// that a majority left but that does not know it yet, an append is undecided: it
// is met with silence, "no responders", 10008, 10009 or 10176, or it expects
// something else than an attempt before it that a majority may still store. For
// reads the answers of such a server look like any other and are of the past,
// so that a head counts only where its server just heard from a majority
// (ErrNoLeader), and nothing counts as lost until the leader misses it as well.
package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"assay/ledger"
)

// Name is the stream that holds the ledger.
const Name = "LEDGER"

// SubjectPrefix goes before an event's type in a record's subject.
const SubjectPrefix = "ledger."

// DefaultMaxBatch is the largest batch that the rendered broker configuration
// allows (jetstream limits batch max_msgs).
const DefaultMaxBatch = 5000

var (
	// ErrUndecided means that an append may or may not have been stored.
	ErrUndecided = errors.New("append undecided")
	// ErrFull comes with ErrUndecided and means that the broker refused this
	// attempt because a storage limit is reached. An earlier attempt may have
	// been stored: the limit is looked at before the sequence.
	ErrFull = errors.New("the broker's storage limit is reached")
	// ErrWrongSequence means that the stream does not end where the append expected.
	ErrWrongSequence = errors.New("stream does not end at the expected sequence")
	// ErrNoStream means that the broker has no LEDGER stream: it was never
	// made, or it was deleted.
	ErrNoStream = errors.New("the broker has no ledger stream")
	// ErrNoLeader means that no server of a replicated stream answers which a
	// majority follows: what the others know may be of the past.
	ErrNoLeader = errors.New("no leader of the ledger stream that a majority follows")
	// ErrNotFound means that the stream holds no message at a sequence.
	ErrNotFound = errors.New("no message at this sequence")
)

// Message is one record on its way to the stream.
type Message struct {
	Subject string
	Body    []byte
}

// Head describes where the stream begins and ends.
type Head struct {
	First   ledger.Seq
	Last    ledger.Seq // 0 when empty
	Deleted int        // messages missing between them: always 0 in a whole ledger
}

// Stream is the LEDGER stream over one connection.
type Stream struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	api      string // prefix of the JetStream API
	timeout  time.Duration
	maxBatch atomic.Int64 // lowered by Append while others ask

	mu     sync.Mutex
	staged []*stagedBatch // that no Append has passed yet
}

// Config says how to reach the stream.
type Config struct {
	// APIPrefix is the JetStream API prefix: empty in the STORE account, the
	// imported one in a READ account.
	APIPrefix string
	// Timeout bounds one attempt of an append or a request; zero means 5 s.
	Timeout time.Duration
	// MaxBatch is the broker's limit of messages in an atomic batch; zero
	// means DefaultMaxBatch. A broker that allows fewer is found out.
	MaxBatch int
}

// New uses nc, which must belong to an account that may use the stream.
func New(nc *nats.Conn, cfg Config) (*Stream, error) {
	s := &Stream{nc: nc, api: "$JS.API", timeout: cfg.Timeout}
	if s.timeout == 0 {
		s.timeout = 5 * time.Second
	}
	s.maxBatch.Store(int64(cmp.Or(cfg.MaxBatch, DefaultMaxBatch)))
	var err error
	if cfg.APIPrefix == "" {
		s.js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(s.timeout))
	} else {
		s.api = cfg.APIPrefix
		s.js, err = jetstream.NewWithAPIPrefix(nc, cfg.APIPrefix, jetstream.WithDefaultTimeout(s.timeout))
	}
	if err != nil {
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	return s, nil
}

// MaxBatch is the largest batch known to be allowed.
func (s *Stream) MaxBatch() int { return int(s.maxBatch.Load()) }

// stagedFor is how long the broker surely keeps what was staged: it forgets it
// when nothing comes for ten seconds.
const stagedFor = 5 * time.Second

// stagedBatch is a batch of which the broker gets all but the last message.
type stagedBatch struct {
	first ledger.Seq
	msgs  []Message
	at    time.Time
	sent  chan struct{}               // closed when nothing of msgs is used any more
	batch jetstreamext.BatchPublisher // nil when it failed; to be read once sent is closed
}

// Stage lets the broker have msgs while the Append of what is before them is under
// way, all but the last of them: that one commits them, and only an Append of
// the same msgs sends it. Until then nothing of them is stored, and if none comes
// nothing ever is. It goes on in the background, so that a connection that is
// stuck holds nobody up, until an Append at first or behind it returns. It may fail;
// the Append then does everything.
func (s *Stream) Stage(first ledger.Seq, msgs []Message) {
	if len(msgs) < 2 || len(msgs) > s.MaxBatch() {
		return
	}
	b := &stagedBatch{first: first, msgs: msgs, at: time.Now(), sent: make(chan struct{})}
	s.mu.Lock()
	s.staged = append(s.staged, b)
	s.mu.Unlock()
	go func() {
		defer close(b.sent)
		if batch, err := s.open(first, msgs); err == nil {
			b.batch = batch
		}
	}()
}

// takeStaged is the batch of these very msgs, if the broker has it. Of those that
// are passed nothing is used any more.
func (s *Stream) takeStaged(first ledger.Seq, msgs []Message) (batch jetstreamext.BatchPublisher) {
	s.mu.Lock()
	var passed []*stagedBatch
	s.staged = slices.DeleteFunc(s.staged, func(b *stagedBatch) bool {
		if b.first > first {
			return false
		}
		passed = append(passed, b)
		return true
	})
	s.mu.Unlock()
	for _, b := range passed {
		<-b.sent
		if b.first == first && len(b.msgs) == len(msgs) && &b.msgs[0] == &msgs[0] && time.Since(b.at) < stagedFor {
			batch = b.batch
		}
	}
	return batch
}

// Append stores msgs at first and after, as one atomic batch, or several if the
// broker's limit is lower than len(msgs). Only one Append may be under way, and
// it keeps nothing of msgs when it returns.
// Errors wrap ErrWrongSequence or ErrUndecided.
func (s *Stream) Append(ctx context.Context, first ledger.Seq, msgs []Message) error {
	if len(msgs) == 0 {
		return nil
	}
	staged := s.takeStaged(first, msgs)
	for len(msgs) > 0 {
		n := min(len(msgs), s.MaxBatch())
		if n < len(msgs) {
			staged = nil // the limit was lowered meanwhile
		}
		var err error
		if n == 1 {
			err = s.appendOne(ctx, first, msgs[0])
		} else {
			err = s.appendBatch(ctx, first, msgs[:n], staged)
			staged = nil
		}
		if errors.Is(err, jetstreamext.ErrBatchPublishExceedsLimit) && n > 1 {
			s.maxBatch.Store(int64(n / 2))
			continue
		}
		if err != nil {
			return classify(first, err)
		}
		first += ledger.Seq(n)
		msgs = msgs[n:]
	}
	return nil
}

func (s *Stream) appendOne(ctx context.Context, seq ledger.Seq, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	msg := &nats.Msg{Subject: m.Subject, Data: m.Body, Header: nats.Header{
		jetstream.ExpectedStreamHeader:  {Name},
		jetstream.ExpectedLastSeqHeader: {strconv.FormatUint(uint64(seq-1), 10)},
	}}
	reply, err := s.nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return err
	}
	var ack struct {
		Error    *jetstream.APIError `json:"error"`
		Stream   string              `json:"stream"`
		Sequence uint64              `json:"seq"`
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return fmt.Errorf("read ack: %w", err)
	}
	if ack.Error != nil {
		return ack.Error
	}
	if ack.Stream != Name || ack.Sequence != uint64(seq) {
		return fmt.Errorf("ack names %s %d", ack.Stream, ack.Sequence)
	}
	return nil
}

// appendBatch sends msgs as one atomic batch, or what is left of it to be sent.
func (s *Stream) appendBatch(ctx context.Context, first ledger.Seq, msgs []Message, batch jetstreamext.BatchPublisher) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if batch == nil {
		var err error
		if batch, err = s.open(first, msgs); err != nil {
			return err
		}
	}
	end := len(msgs) - 1
	ack, err := batch.CommitMsg(ctx, &nats.Msg{Subject: msgs[end].Subject, Data: msgs[end].Body})
	if err != nil {
		return err
	}
	if last := uint64(first) + uint64(end); ack.Stream != Name || ack.Sequence != last {
		return fmt.Errorf("batch ack names %s %d, want %d", ack.Stream, ack.Sequence, last)
	}
	return nil
}

// open sends all but the last of msgs as the beginning of a batch. The connection
// copies each message as it is published, so one nats.Msg and one header serve
// them all.
func (s *Stream) open(first ledger.Seq, msgs []Message) (jetstreamext.BatchPublisher, error) {
	batch, err := jetstreamext.NewBatchPublisher(s.js, jetstreamext.BatchFlowControl{AckTimeout: s.timeout})
	if err != nil {
		return nil, err
	}
	out := &nats.Msg{Header: nats.Header{
		jetstream.ExpectedStreamHeader:  {Name},
		jetstream.ExpectedLastSeqHeader: {strconv.FormatUint(uint64(first-1), 10)},
	}}
	for i, m := range msgs[:len(msgs)-1] {
		out.Subject, out.Data = m.Subject, m.Body
		if err := batch.AddMsg(out); err != nil {
			return nil, fmt.Errorf("publish message %d of the batch: %w", i+1, err)
		}
		if i == 0 { // the expectation stands on the first message alone
			delete(out.Header, jetstream.ExpectedStreamHeader)
			delete(out.Header, jetstream.ExpectedLastSeqHeader)
		}
	}
	return batch, nil
}

// full are the answers of a broker that has reached a limit of its own, of the
// account or of the stream.
var full = []jetstream.ErrorCode{
	10023, // insufficient resources: the server's limit
	10002, // resource limits exceeded for account
	10047, // insufficient storage resources available
	10077, // maximum bytes exceeded: the stream's limit
}

func classify(first ledger.Seq, err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) && slices.Contains(full, api.ErrorCode) {
		return fmt.Errorf("append at %d: %w: %w: %w", first, ErrUndecided, ErrFull, err)
	}
	if errors.As(err, &api) && (api.ErrorCode == 10071 || api.ErrorCode == 10164) {
		return fmt.Errorf("append at %d: %w: %w", first, ErrWrongSequence, err)
	}
	return fmt.Errorf("append at %d: %w: %w", first, ErrUndecided, err)
}

// info is the part of a STREAM.INFO that a head is made of.
type info struct {
	Error  *jetstream.APIError   `json:"error"`
	State  jetstream.StreamState `json:"state"`
	Config struct {
		Replicas int `json:"num_replicas"`
	} `json:"config"`
	Cluster struct {
		Leader   string `json:"leader"`
		Replicas []struct {
			Active int64 `json:"active"` // nanoseconds since it was heard; 0 for never
		} `json:"replicas"`
	} `json:"cluster"`
}

// heardWithin is less than the four seconds of silence after which another
// server may stand for election (nats-server 2.15.3).
const heardWithin = 3 * time.Second

// Led says whether what a server says of a stream with replicas copies is the
// word of a leader with a majority behind it: leader is who it takes for it, and
// heard is how long ago it heard from each of the others, 0 for never. A server
// answers for a stream without leader too, and one that was cut off goes on as
// leader for ten seconds or more.
func Led(replicas int, leader string, heard []time.Duration) bool {
	if replicas <= 1 {
		return true
	}
	with := 1 // itself
	for _, ago := range heard {
		if ago > 0 && ago <= heardWithin {
			with++
		}
	}
	return leader != "" && with > replicas/2
}

func (i *info) led() bool {
	var heard []time.Duration
	for _, r := range i.Cluster.Replicas {
		heard = append(heard, time.Duration(r.Active))
	}
	return Led(i.Config.Replicas, i.Cluster.Leader, heard)
}

// Head asks the stream's leader where it ends. ErrNoLeader when none was found
// within the stream's timeout.
func (s *Stream) Head(ctx context.Context) (Head, error) { return s.headWithin(ctx, s.timeout) }

func (s *Stream) headWithin(ctx context.Context, patience time.Duration) (h Head, err error) {
	err = s.withLeader(ctx, patience, func(ctx context.Context) (err error) {
		h, err = s.head(ctx)
		return err
	})
	return h, err
}

// withLeader calls ask, each time for no longer than the stream's timeout, until it
// is answered otherwise than by servers without a leader, for as long as patience.
// Silence is no answer: a leader that is gone is asked until the others notice.
func (s *Stream) withLeader(ctx context.Context, patience time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		try, done := context.WithTimeout(ctx, s.timeout)
		err := ask(try)
		done()
		if !leaderless(err) && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(leaderPause):
		}
	}
}

// leaderless says whether err is the answer of a server that found no leader of
// the stream, or none of the cluster (503: JetStream is temporarily unavailable),
// as for some seconds after servers came back.
func leaderless(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, ErrNoLeader) || errors.As(err, &api) && api.Code == 503
}

// leaderPause is the time between two looks for a leader.
const leaderPause = 250 * time.Millisecond

func (s *Stream) head(ctx context.Context) (Head, error) {
	var i info
	if err := s.request(ctx, "STREAM.INFO."+Name, nil, &i); err != nil {
		return Head{}, err
	}
	switch {
	case i.Error != nil && i.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		return Head{}, ErrNoStream
	case i.Error != nil:
		return Head{}, fmt.Errorf("stream %s: %w", Name, i.Error)
	case !i.led():
		return Head{}, ErrNoLeader
	}
	return Head{First: ledger.Seq(i.State.FirstSeq), Last: ledger.Seq(i.State.LastSeq), Deleted: i.State.NumDeleted}, nil
}

// Get reads one message through the leader; direct gets can be stale. A
// missing one is ErrNotFound.
func (s *Stream) Get(ctx context.Context, seq ledger.Seq) ([]byte, error) {
	body, err := s.get(ctx, seq)
	if !errors.Is(err, ErrNotFound) {
		return body, err
	}
	// Rare, and grave where it is met: it must not be the word of a server that
	// was cut off before the message came.
	if _, err := s.Head(ctx); err != nil {
		return nil, fmt.Errorf("message %d: %w", seq, err)
	}
	return s.get(ctx, seq)
}

func (s *Stream) get(ctx context.Context, seq ledger.Seq) ([]byte, error) {
	var got struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Data []byte `json:"data"`
		} `json:"message"`
	}
	if err := s.request(ctx, "STREAM.MSG.GET."+Name, fmt.Appendf(nil, `{"seq":%d}`, seq), &got); err != nil {
		return nil, err
	}
	if got.Error != nil {
		if got.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound {
			return nil, fmt.Errorf("message %d: %w", seq, ErrNotFound)
		}
		return nil, fmt.Errorf("message %d: %w", seq, got.Error)
	}
	return got.Message.Data, nil
}

func (s *Stream) request(ctx context.Context, api string, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	msg, err := s.nc.RequestWithContext(ctx, s.api+"."+api, body)
	if err != nil {
		return fmt.Errorf("%s: %w", api, err)
	}
	if err := json.Unmarshal(msg.Data, out); err != nil {
		return fmt.Errorf("%s: read answer: %w", api, err)
	}
	return nil
}
