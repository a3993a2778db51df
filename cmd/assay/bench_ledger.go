package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"assay/bench/causal/set"
	"assay/cmd/internal/node"
	"assay/events"
	"assay/events/publish"
	"assay/internal/blob"
	"assay/internal/principal"
)

// harnessFlags say in whose name a set's events are written.
type harnessFlags struct {
	As       string `help:"Harness in whose name it is written." required:"" placeholder:"harness/NAME"`
	NATS     string `name:"nats" help:"Publish to the broker at this address." placeholder:"URL"`
	CredsDir string `help:"Directory with the credential of --as, for --nats." type:"path" placeholder:"DIR"`
	NKey     string `name:"nkey" help:"File with the seed of --as." type:"path" placeholder:"FILE"`
}

// with runs work on the ledger's cases.
func (c *harnessFlags) with(a *app, word string, work func(node.Cases) (node.CasesWritten, error)) error {
	if role, _, err := principal.ParseID(c.As); err != nil || role != principal.Harness {
		return usageError("only a harness writes about cases, not %q", c.As)
	}
	emit := emitCmd{As: c.As, NATS: c.NATS, CredsDir: c.CredsDir, NKey: c.NKey}
	client, done, err := emit.dial(a)
	if err != nil {
		return err
	}
	defer done()
	show, end := progress[int64](a, "looking cases up")
	out, err := work(node.Cases{
		As: c.As, Find: a.find, Progress: show,
		Publish: func(ctx context.Context, batch [][]byte) ([]publish.Answer, error) {
			return client.PublishBatch(ctx, batch)
		},
	})
	end()
	if err != nil {
		return err
	}
	return a.print(out, func(w io.Writer) {
		if out.Opened {
			fmt.Fprintf(w, "opened the cohort %s\n", out.Cohort)
		}
		fmt.Fprintf(w, "%s %d cases of the cohort %s; %d were before\n", word, out.Written, out.Cohort, out.Already)
	})
}

// splits are the ledger's names of a set's.
var splits = map[string]string{set.Dev: "dev", set.Val: "validation", set.Test: "final"}

type benchCommitCmd struct {
	harnessFlags
	Set    string `arg:"" help:"Directory of a set; its public part is enough." type:"existingdir" placeholder:"DIR"`
	Cohort string `help:"Cohort of the cases, opened where nobody did. Default: one that follows from the manifest." placeholder:"ID"`
}

func (c *benchCommitCmd) Run(a *app) error {
	s, m, err := set.ReadPublic(c.Set)
	if err != nil {
		return err
	}
	cohort := c.Cohort
	if cohort == "" {
		cohort = m.Cohort()
	}
	split, known := splits[m.Split]
	if !known {
		return fmt.Errorf("%w: there is no split %q", set.ErrBroken, m.Split)
	}
	opened := &events.CohortOpened{CohortID: cohort, Split: split}
	seen := map[string]bool{}
	for i := range s.Cases {
		p := &s.Cases[i].Public
		if !seen[p.WorldID] {
			seen[p.WorldID] = true
			opened.Worlds = append(opened.Worlds, p.WorldID)
		}
	}
	if len(opened.Worlds) > maxCohort {
		return usageError("a cohort has at most %d worlds, and the set %d: make smaller sets", maxCohort, len(opened.Worlds))
	}
	var cases []*events.CaseCommitted
	for i, k := range m.Cases {
		if p := &s.Cases[i].Public; p.CaseID != k.CaseID || p.WorldID != k.WorldID {
			return fmt.Errorf("%w: line %d of cases.jsonl is another case than the manifest's", set.ErrBroken, i+1)
		}
		cases = append(cases, &events.CaseCommitted{
			CaseID: k.CaseID, WorldID: &k.WorldID, CohortID: cohort, Split: split, PublicSHA256: k.PublicSHA256, OracleSHA256: k.OracleSHA256,
		})
	}
	return c.with(a, "committed to", func(l node.Cases) (node.CasesWritten, error) { return l.Commit(a.ctx, opened, cases) })
}

// maxCohort is how many worlds cohort.opened may list.
const maxCohort = 1500

type benchRevealCmd struct {
	harnessFlags
	Set     string `arg:"" help:"Directory of a set with its oracles." type:"existingdir" placeholder:"DIR"`
	Private string `help:"Directory of the set's oracles. Default: private, in the set." type:"existingdir" placeholder:"DIR"`
}

func (c *benchRevealCmd) Run(a *app) error {
	s, m, err := set.Read(c.Set, c.Private)
	if err != nil {
		return err
	}
	store, err := a.blobs()
	if err != nil {
		return err
	}
	var committed []string
	var cases []node.Opening
	for i := range s.Cases {
		k := &s.Cases[i]
		committed = append(committed, m.Cases[i].OracleSHA256)
		cases = append(cases, node.Opening{Oracle: k.OracleLine, CaseRevealed: &events.CaseRevealed{
			CaseID: k.Public.CaseID, Salt: hex.EncodeToString(k.Salt[:]), OracleRef: blob.Ref(k.OracleHash()),
		}})
	}
	return c.with(a, "revealed", func(l node.Cases) (node.CasesWritten, error) {
		return l.Reveal(a.ctx, committed, cases, func(oracle []byte) error {
			_, err := store.Put(oracle)
			return err
		})
	})
}

// ledgerCheck holds what a set commits to against what the ledger does.
func ledgerCheck(a *app, s *set.Set) (set.Check, error) {
	return s.InLedger(func(id string) (*set.Commitment, error) {
		found, err := a.find(id)
		if errors.Is(err, node.ErrNotFound) {
			return nil, nil
		}
		for _, v := range found.Cases {
			if h := v.Committed; h != nil && !v.Imported {
				k := &set.Commitment{CaseID: v.CaseID, PublicSHA256: h.PublicSHA256, OracleSHA256: h.OracleSHA256}
				if h.WorldID != nil {
					k.WorldID = *h.WorldID
				}
				return k, nil
			}
		}
		return nil, err
	})
}
