package ledger

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"
	"golang.org/x/mod/sumdb/note"
)

// keyed is a ledger whose key changes on the way.
type keyed struct {
	t      testing.TB
	bodies [][]byte
	keys   []note.Signer
	vkeys  []string
	signed []SignedCheckpoint
	seed   []byte // of the recovery key
}

func newKeyed(t testing.TB) *keyed {
	pair, err := nkeys.CreateOperator()
	if err != nil {
		t.Fatal(err)
	}
	seed, _ := pair.Seed()
	public, _ := pair.PublicKey()
	k := &keyed{t: t, seed: seed}
	k.makeKey()
	k.append(fmt.Sprintf(`{"type":"ledger.opened","data":{"public_key":"%s","recovery_key_sha256":"%s"}}`,
		k.vkeys[0], Hash(sha256.Sum256([]byte(public)))))
	return k
}

func (k *keyed) makeKey() {
	signer, _, vkey := mustKey(k.t)
	k.keys, k.vkeys = append(k.keys, signer), append(k.vkeys, vkey)
}

func (k *keyed) append(event string) {
	var prev Hash
	if n := len(k.bodies); n > 0 {
		prev = Leaf(k.bodies[n-1])
	}
	k.bodies = append(k.bodies, record(Seq(len(k.bodies)+1), prev, event))
}

func (k *keyed) ticks(n int) {
	for range n {
		k.append(fmt.Sprintf(`{"type":"clock.ticked","id":"%d"}`, len(k.bodies)))
	}
}

// sign makes a checkpoint of the present size with key i.
func (k *keyed) sign(i int) {
	k.t.Helper()
	cp := checkpointOf(k.bodies)
	raw, err := SignCheckpoint(cp, k.keys[i])
	if err != nil {
		k.t.Fatal(err)
	}
	k.signed = append(k.signed, SignedCheckpoint{cp, raw})
}

// rotation is signed as it must be, by the key before the last and the last.
func (k *keyed) rotation() Rotation {
	k.t.Helper()
	k.makeKey()
	n := len(k.keys)
	r := Rotation{Old: k.vkeys[n-2], New: k.vkeys[n-1]}
	text := RotationText(origin, r.Old, r.New)
	var err, err2 error
	r.OldSignature, err = SignRotation(text, k.keys[n-2])
	r.NewSignature, err2 = SignRotation(text, k.keys[n-1])
	if err := errors.Join(err, err2); err != nil {
		k.t.Fatal(err)
	}
	return r
}

func (k *keyed) rotate(r Rotation) {
	k.append(fmt.Sprintf(`{"type":"ledger.key_rotated","data":{"old_key":"%s","new_key":"%s","old_signature":"%s","new_signature":"%s","recovery_key":"%s","recovery_signature":"%s"}}`,
		r.Old, r.New, r.OldSignature, r.NewSignature, r.RecoveryKey, r.RecoverySignature))
}

func (k *keyed) recover(seed []byte) Rotation {
	k.t.Helper()
	r := k.rotation()
	r.OldSignature = ""
	var err error
	if r.RecoveryKey, r.RecoverySignature, err = SignRecovery(RotationText(origin, r.Old, r.New), seed); err != nil {
		k.t.Fatal(err)
	}
	return r
}

func (k *keyed) audit(pin int) Report {
	return audit(Anchor{Key: k.vkeys[pin], Signed: k.signed}, k.bodies)
}

func checkReport(t *testing.T, r Report, want Verdict, bad Seq, check Check, text string) {
	t.Helper()
	var gotBad Seq
	var gotCheck Check
	finding := ""
	if r.FirstBadSeq != nil {
		gotBad, gotCheck = *r.FirstBadSeq, *r.FailedCheck
	}
	if r.Finding != nil {
		finding = *r.Finding
	}
	if r.Verdict != want || gotBad != bad || gotCheck != check || !strings.Contains(finding, text) {
		t.Errorf("%s at %d by %q: %s\nwant %s at %d by %q: %s", r.Verdict, gotBad, gotCheck, finding, want, bad, check, text)
	}
}

func TestRotationIsFollowed(t *testing.T) {
	k := newKeyed(t)
	k.ticks(3)
	k.sign(0)
	k.rotate(k.rotation())
	k.sign(1)
	k.ticks(2)
	k.rotate(k.recover(k.seed))
	k.ticks(2)
	k.sign(2)
	for pin := range k.vkeys {
		r := k.audit(pin)
		checkReport(t, r, Consistent, 0, "", "")
		if len(r.Keys) != 3 || r.Keys[1].From != 5 || r.Keys[1].Recovered || r.Keys[2].From != 8 || !r.Keys[2].Recovered {
			t.Errorf("keys %+v", r.Keys)
		}
	}
	_, _, stranger := mustKey(t)
	checkReport(t, audit(Anchor{Key: stranger, Signed: k.signed}, k.bodies), Inconsistent, 1, CheckKey, "no rotation leads to it")
	// Without a pin the chain of keys proves nothing but itself.
	checkReport(t, audit(Anchor{Signed: k.signed}, k.bodies), Unanchored, 0, "", "internally consistent only")
	// What only keys before the pinned one signed does not anchor it.
	checkReport(t, audit(Anchor{Key: k.vkeys[2], Signed: k.signed[:2]}, k.bodies), Unanchored, 0, "", "internally consistent only")
}

// Each size is signed by the key that was in force at it, and by no other.
func TestCheckpointOfAKeyThatIsNotInForce(t *testing.T) {
	k := newKeyed(t)
	k.ticks(3)
	k.sign(0)
	k.rotate(k.rotation())
	k.ticks(1)
	k.sign(0) // the old key goes on
	checkReport(t, k.audit(1), Inconsistent, 5, CheckSignature, "cannot be trusted")
	k.signed = k.signed[:1]
	k.sign(1)
	checkReport(t, k.audit(0), Consistent, 0, "", "")
	k.signed = nil
	early := *k
	early.bodies = k.bodies[:4]
	early.sign(1) // the new key before its rotation
	checkReport(t, audit(Anchor{Key: k.vkeys[0], Signed: early.signed}, k.bodies), Inconsistent, 1, CheckSignature, "cannot be trusted")
}

func TestRotationThatNobodyMayMake(t *testing.T) {
	for name, spoil := range map[string]func(k *keyed, r *Rotation){
		"old signature missing": func(_ *keyed, r *Rotation) { r.OldSignature = "" },
		"new signature missing": func(_ *keyed, r *Rotation) { r.NewSignature = "" },
		"signatures exchanged":  func(_ *keyed, r *Rotation) { r.OldSignature, r.NewSignature = r.NewSignature, r.OldSignature },
		"of another key":        func(k *keyed, r *Rotation) { k.makeKey(); r.Old = k.vkeys[len(k.vkeys)-1] },
		"to the same key":       func(_ *keyed, r *Rotation) { r.New = r.Old },
		"to a key of another log": func(_ *keyed, r *Rotation) {
			r.New = strings.Replace(r.New, origin, "example.com/other", 1)
		},
		"to no key": func(_ *keyed, r *Rotation) { r.New = "x" },
		"by a recovery key that record 1 does not name": func(k *keyed, r *Rotation) {
			pair, _ := nkeys.CreateOperator()
			seed, _ := pair.Seed()
			*r = k.recover(seed)
		},
		"by a recovery signature over another change": func(k *keyed, r *Rotation) {
			other := k.recover(k.seed)
			*r = k.recover(k.seed)
			r.RecoverySignature = other.RecoverySignature
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeyed(t)
			k.ticks(2)
			k.sign(0)
			r := k.rotation()
			spoil(k, &r)
			k.rotate(r)
			k.ticks(1)
			checkReport(t, k.audit(0), Inconsistent, 4, CheckKey, "the key was not rotated by those who may")
		})
	}
}

// A rotation counts only in a record of the logger.
func TestRotationOfAnAgentHasNoEffect(t *testing.T) {
	k := newKeyed(t)
	k.rotate(k.rotation())
	r, err := ParseRecord(k.bodies[1])
	if err != nil {
		t.Fatal(err)
	}
	h := r.Header
	h.Principal = "agent/piper"
	k.bodies[1] = AppendRecord(nil, h, r.Event)
	k.ticks(1)
	k.sign(0)
	rep := k.audit(0)
	checkReport(t, rep, Consistent, 0, "", "")
	if len(rep.Keys) != 0 {
		t.Errorf("keys %+v", rep.Keys)
	}
}

func TestForkOfCheckpoints(t *testing.T) {
	k := newKeyed(t)
	k.ticks(3)
	k.sign(0)
	k.ticks(3)
	k.sign(0)
	fork := *k
	fork.bodies = slices.Clone(k.bodies[:5])
	fork.append(`{"type":"clock.ticked","id":"forked"}`)
	fork.ticks(1)
	fork.sign(0)
	anchor := Anchor{Key: k.vkeys[0], Signed: append(slices.Clone(k.signed), fork.signed[len(fork.signed)-1])}
	checkReport(t, audit(anchor, k.bodies), Inconsistent, 5, CheckFork, "the log was forked behind record 4")
	// One that anybody could have written is no fork.
	forged := fork.signed[len(fork.signed)-1]
	signer, _, _ := mustKey(t)
	raw, err := SignCheckpoint(forged.Checkpoint, signer)
	if err != nil {
		t.Fatal(err)
	}
	anchor.Signed = append(slices.Clone(k.signed), SignedCheckpoint{forged.Checkpoint, raw})
	checkReport(t, audit(anchor, k.bodies), Inconsistent, 5, CheckSignature, "cannot be trusted")
}

// Fork and tamper are told apart: a second record for one place is what another
// logger wrote, a record whose hash is not the one that was chained was altered.
func TestForkOfRecords(t *testing.T) {
	_, _, key := mustKey(t)
	good := build(6, key)
	// Another logger's record 4 stands behind ours.
	other := record(4, Leaf(good[2]), `{"type":"clock.ticked","id":"other"}`)
	forked := [][]byte{good[0], good[1], good[2], good[3], other, record(6, Leaf(other), `{"type":"clock.ticked","id":"6"}`)}
	checkReport(t, audit(Anchor{Key: key}, forked), Inconsistent, 5, CheckFork, "two loggers wrote")
	checkReport(t, audit(Anchor{Key: key}, forked[:5]), Inconsistent, 5, CheckFork, "two loggers wrote")
	altered := slices.Clone(good)
	altered[3] = slices.Concat(good[3][:len(good[3])-3], []byte(`9"}}`))
	checkReport(t, audit(Anchor{Key: key}, altered), Inconsistent, 4, CheckLink, "record 4 was altered")
}

func TestRememberedHead(t *testing.T) {
	k := newKeyed(t)
	k.ticks(5)
	k.sign(0)
	head := k.signed[0].Checkpoint
	k.ticks(4)
	anchor := Anchor{Key: k.vkeys[0], Checkpoints: []Checkpoint{head}}
	checkReport(t, audit(anchor, k.bodies), Consistent, 0, "", "")
	checkReport(t, audit(anchor, k.bodies[:5]), Inconsistent, 6, CheckEnd, "records 6 to 6 are gone")
	rewritten := newKeyed(t)
	rewritten.ticks(9)
	anchor.Key = rewritten.vkeys[0]
	checkReport(t, audit(anchor, rewritten.bodies), Inconsistent, 1, CheckRoot, "were rewritten")
}

// A ledger restored from an old backup says so; whoever remembers more is told
// which records were given up, and is not told that all is well.
func TestDeclaredLoss(t *testing.T) {
	k := newKeyed(t)
	k.ticks(5)
	lost := *k
	lost.bodies = slices.Clone(k.bodies)
	lost.ticks(4)
	lost.sign(0)
	head := lost.signed[0].Checkpoint
	k.append(fmt.Sprintf(`{"type":"ledger.restored","data":{"size":6,"known_size":%d,"known_root":"%s","checkpoint":"x","accepted_by":"ops"}}`, head.Size, head.Root))
	k.ticks(1)
	k.sign(0)
	r := k.audit(0)
	checkReport(t, r, Consistent, 0, "", "")
	if len(r.Losses) != 1 || r.Losses[0].Seq != 7 || r.Losses[0].Size != 6 || r.Losses[0].KnownSize != 10 || r.Losses[0].AcceptedBy != "ops" {
		t.Errorf("losses %+v", r.Losses)
	}
	anchor := Anchor{Key: k.vkeys[0], Signed: k.signed, Checkpoints: []Checkpoint{head}}
	checkReport(t, audit(anchor, k.bodies), Inconsistent, 9, CheckEnd, `records 7 to 10 were lost when the ledger was restored from a backup (accepted by "ops")`)
	k.ticks(4)
	checkReport(t, audit(anchor, k.bodies), Inconsistent, 9, CheckRoot, "record 7 declares that records 7 to 10 were lost")
}

// A truncation may take the rotation with it.
func TestTruncationBeforeARotation(t *testing.T) {
	k := newKeyed(t)
	k.ticks(3)
	k.rotate(k.rotation())
	k.ticks(1)
	k.sign(1)
	cut := *k
	cut.bodies = k.bodies[:3]
	checkReport(t, cut.audit(1), Inconsistent, 1, CheckKey, "no rotation leads to it")
	checkReport(t, cut.audit(0), Inconsistent, 4, CheckSignature, "cannot be trusted")
	checkReport(t, audit(Anchor{Key: k.vkeys[1], Signed: k.signed}, nil), Inconsistent, 1, CheckEnd, "records 1 to 6 are gone")
}
