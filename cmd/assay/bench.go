package main

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"assay/bench/causal/record"
	"assay/bench/causal/set"
)

type benchCmd struct {
	Generate benchGenerateCmd `cmd:"" help:"Make a set of cases from a seed: what agents get, and apart from it what is true."`
	Validate benchValidateCmd `cmd:"" help:"Check a set, or the generator on fresh worlds: prints ALL PASS, or what failed."`
	Inspect  benchInspectCmd  `cmd:"" help:"Show what a set is, or one of its cases with its evidence."`
	Commit   benchCommitCmd   `cmd:"" help:"Commit to a set's cases in the ledger, by hashes, before anybody has seen them."`
	Reveal   benchRevealCmd   `cmd:"" help:"Open a set's cases in the ledger, with oracles and salts, once their cohort is retired (dev: at once)."`
	Schema   benchSchemaCmd   `cmd:"" help:"Print the JSON Schema of a record."`
}

// minSeed is how long a seed is at least that nobody may guess.
const minSeed = 32

type benchGenerateCmd struct {
	Out      string   `help:"Directory to write; nothing may be there." type:"path" required:"" placeholder:"DIR"`
	Private  string   `help:"Directory for oracles and seed. Default: private, in --out." type:"path" placeholder:"DIR"`
	Owner    string   `name:"private-owner" help:"User to whom alone oracles and seed shall belong. Only root can give them away. Default: who runs this." placeholder:"USER"`
	Split    string   `help:"dev, val or test; the last one has structures that the others do not." enum:"dev,val,test" default:"dev"`
	Worlds   int      `help:"How many independent worlds. C9: 60 for dev, 200 for the others." default:"60"`
	Seed     string   `help:"What everything follows from. Default: drawn at random. Anybody who can guess it knows the answers, and arguments can be seen by others: for dev." placeholder:"TEXT" xor:"seed"`
	SeedFile string   `help:"File with the seed." type:"existingfile" placeholder:"FILE" xor:"seed"`
	Topic    []string `help:"Make this family only (docs/bench.md). Can be repeated." placeholder:"TOPIC"`
	BaseOnly bool     `help:"Leave out the variants: nonsense names, other names, other words, evidence behind tools."`
}

func (c *benchGenerateCmd) recipe() (set.Recipe, error) {
	r := set.Recipe{V: record.Version, BenchVersion: set.BenchVersion, Seed: c.Seed, Split: c.Split, Worlds: c.Worlds, Topics: c.Topic, BaseOnly: c.BaseOnly}
	switch {
	case c.SeedFile != "":
		raw, err := os.ReadFile(c.SeedFile)
		if err != nil {
			return r, err
		}
		if r.Seed = strings.TrimSpace(string(raw)); r.Seed == "" {
			return r, usageError("%s has no seed", c.SeedFile)
		}
	case c.Seed == "":
		fresh := make([]byte, 32)
		rand.Read(fresh)
		r.Seed = hex.EncodeToString(fresh)
	}
	if r.Split != set.Dev && len(r.Seed) < minSeed {
		return r, usageError("a seed of less than %d characters can be guessed: give a longer one, or none", minSeed)
	}
	return r, nil
}

func (c *benchGenerateCmd) Run(a *app) error {
	r, err := c.recipe()
	if err != nil {
		return err
	}
	place := set.Place{Dir: c.Out, Private: c.Private}
	if c.Owner != "" {
		uid, err := userID(c.Owner)
		if err != nil {
			return usageError("--private-owner: %w", err)
		}
		place.Owner = &uid
	}
	show, end := progress[int64](a, "drawing worlds")
	s, err := set.Generate(a.ctx, r, show)
	end()
	if errors.Is(err, set.ErrRecipe) {
		return usageError("%w", err)
	}
	if err != nil {
		return err
	}
	show, end = progress[int64](a, "writing")
	err = s.Write(a.ctx, place, show)
	end()
	if errors.Is(err, fs.ErrExist) {
		return usageError("%w: give a path that is free", err)
	}
	if errors.Is(err, set.ErrPlace) {
		return usageError("%w", err)
	}
	if err != nil {
		return err
	}
	m := s.Manifest()
	m.Cases = nil // they are in the file
	return a.print(m, func(w io.Writer) { printManifest(w, m, len(s.Cases)) })
}

// userID is the number of a user, who is named or numbered. The largest number is none:
// to the system it says that a file's owner stays.
func userID(name string) (int, error) {
	number := name
	u, err := user.Lookup(name)
	if err == nil {
		number = u.Uid
	}
	uid, bad := strconv.ParseUint(number, 10, 32)
	if bad != nil || uid == math.MaxUint32 {
		return 0, cmp.Or(err, fmt.Errorf("%s has no number", name))
	}
	return int(uid), nil
}

func printManifest(w io.Writer, m set.Manifest, cases int) {
	fmt.Fprintf(w, "split     %s, bench version %s\nworlds    %d\ncases     %d\nblobs     %d\n", m.Split, m.BenchVersion, m.Worlds, cases, m.Blobs)
	for _, list := range []struct {
		name string
		of   map[string]int
	}{{"families", m.Families}, {"skins", m.Skins}, {"dropped", m.Dropped}} {
		for _, k := range slices.Sorted(maps.Keys(list.of)) {
			fmt.Fprintf(w, "%-9s %s %d\n", list.name, k, list.of[k])
		}
	}
}

type benchValidateCmd struct {
	Set     string  `arg:"" optional:"" help:"Directory of a set with its oracles. Default: fresh worlds." type:"existingdir" placeholder:"DIR"`
	Private string  `help:"Directory of the set's oracles. Default: private, in the set." type:"existingdir" placeholder:"DIR"`
	Seed    *string `help:"Seed of the fresh worlds. Default: validate." placeholder:"TEXT"`
	Worlds  *int    `help:"How many fresh worlds. Default: 1300; fewer may be too few for the audits." placeholder:"N"`
	Ledger  bool    `help:"Hold the set against what the ledger commits to (assay bench commit), too."`
	Draws   int     `help:"Draws of the simulation, for each model." default:"200000"`
}

// validation is the table of `assay bench validate`.
type validation struct {
	Pass   bool        `json:"pass"`
	Worlds int         `json:"worlds"`
	Cases  int         `json:"cases"`
	Checks []set.Check `json:"checks"`
}

func (c *benchValidateCmd) Run(a *app) error {
	switch {
	case c.Draws < 1000 || c.Draws > 100_000_000:
		return usageError("--draws must be from 1000 to 100000000")
	case c.Set != "" && (c.Seed != nil || c.Worlds != nil):
		return usageError("--seed and --worlds are for fresh worlds: a set has its own")
	case c.Set == "" && (c.Private != "" || c.Ledger):
		return usageError("--private and --ledger are for a set: fresh worlds are nowhere")
	}
	s, first, err := c.load(a)
	if err != nil {
		return err
	}
	show, end := progress[int64](a, "simulating")
	checks, err := set.Validate(a.ctx, s, set.Options{Draws: c.Draws, Whole: c.Set == "", Progress: show})
	end()
	if err != nil {
		return err
	}
	v := validation{Worlds: s.Recipe.Worlds, Cases: len(s.Cases), Checks: append(first, checks...)}
	v.Pass = set.Passed(v.Checks)
	if err := a.print(v, v.print); err != nil {
		return err
	}
	if !v.Pass {
		return errDoesNotHold
	}
	return nil
}

// load gives the set that is asked for, with what was checked already.
func (c *benchValidateCmd) load(a *app) (*set.Set, []set.Check, error) {
	show, end := progress[int64](a, "drawing worlds")
	defer end()
	if c.Set == "" {
		fresh := set.Recipe{V: record.Version, BenchVersion: set.BenchVersion, Seed: "validate", Split: set.Dev, Worlds: 1300, BaseOnly: true}
		if c.Seed != nil {
			fresh.Seed = *c.Seed
		}
		if c.Worlds != nil {
			fresh.Worlds = *c.Worlds
		}
		s, err := set.Generate(a.ctx, fresh, show)
		if errors.Is(err, set.ErrRecipe) {
			err = usageError("%w", err)
		}
		return s, nil, err
	}
	s, _, err := set.Read(c.Set, c.Private)
	if err != nil {
		return nil, nil, err
	}
	again, err := s.Repeats(a.ctx, show)
	if err != nil {
		return nil, nil, err
	}
	checks := []set.Check{again, set.Closed(cmp.Or(c.Private, filepath.Join(c.Set, "private")))}
	if c.Ledger {
		in, err := ledgerCheck(a, s)
		if err != nil {
			return nil, nil, err
		}
		checks = append(checks, in)
	}
	return s, checks, nil
}

func (v *validation) print(w io.Writer) {
	failed := 0
	for _, c := range v.Checks {
		word := "too few"
		if c.Pass != nil && *c.Pass {
			word = "pass"
		} else if c.Pass != nil {
			word = "FAIL"
			failed++
		}
		fmt.Fprintf(w, "%-8s %-30s n = %-6d %s\n", word, c.Name, c.N, visible(c.Result))
		for _, f := range c.Faults {
			fmt.Fprintf(w, "           %s\n", visible(f))
		}
	}
	if failed > 0 {
		fmt.Fprintf(w, "%d of %d checks FAILED\n", failed, len(v.Checks))
		return
	}
	fmt.Fprintln(w, "ALL PASS")
}

type benchInspectCmd struct {
	Set     string `arg:"" help:"Directory of a set." type:"existingdir" placeholder:"DIR"`
	Case    string `arg:"" optional:"" help:"Id of a case, or its start." placeholder:"CASE"`
	Oracle  bool   `help:"Show what is true of the case, too."`
	Private string `help:"Directory of the set's oracles. Default: private, in the set." type:"existingdir" placeholder:"DIR"`
}

// inspected is one case in full.
type inspected struct {
	Case     jsontext.Value            `json:"case"`
	Evidence map[string]jsontext.Value `json:"evidence"` // by its id
	Oracle   jsontext.Value            `json:"oracle,omitzero"`
}

func (c *benchInspectCmd) Run(a *app) error {
	if c.Oracle && c.Case == "" {
		return usageError("--oracle needs a case")
	}
	if c.Private != "" && !c.Oracle {
		return usageError("--private is for --oracle")
	}
	s, m, err := c.read()
	if err != nil {
		return err
	}
	if c.Case == "" {
		return a.print(m, func(w io.Writer) { printManifest(w, *m, len(s.Cases)) })
	}
	var found []*set.Case
	for i := range s.Cases {
		if strings.HasPrefix(s.Cases[i].Public.CaseID, c.Case) {
			found = append(found, &s.Cases[i])
		}
	}
	if len(found) != 1 {
		return usageError("%d cases have an id that starts with %q", len(found), c.Case)
	}
	k := found[0]
	out := inspected{Case: k.PublicLine, Evidence: map[string]jsontext.Value{}}
	for _, e := range k.Public.Evidence {
		out.Evidence[e.ID] = s.Blobs[strings.TrimPrefix(e.Ref, "sha256:")]
	}
	if c.Oracle {
		out.Oracle = k.OracleLine
	}
	return a.printJSON(out)
}

func (c *benchInspectCmd) read() (*set.Set, *set.Manifest, error) {
	if c.Oracle {
		return set.Read(c.Set, c.Private)
	}
	return set.ReadPublic(c.Set)
}

type benchSchemaCmd struct {
	Record string `arg:"" enum:"public_case,private_oracle,agent_response,tool_event,run_manifest,common" help:"public_case, private_oracle, agent_response, tool_event, run_manifest, or common, which they share."`
}

func (c *benchSchemaCmd) Run(a *app) error {
	raw, _ := record.Schema(c.Record)
	_, err := a.stdout.Write(raw)
	return err
}
