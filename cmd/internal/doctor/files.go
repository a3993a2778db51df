package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"assay/internal/blob"
	"assay/internal/principal"
	"assay/ledger/broker"
)

// unreadable is the result for something that cannot be read: it may only
// belong to another user.
func unreadable(err error) Result {
	if errors.Is(err, fs.ErrPermission) {
		return Unknown
	}
	return Fail
}

// offlineSeeds are the files that belong on no running machine.
var offlineSeeds = []string{
	principal.BootstrapStore + principal.CredentialSuffix, principal.BootstrapTelemetry + principal.CredentialSuffix, "recovery" + principal.CredentialSuffix,
}

// brokers are the directories of the brokers that may run on this host: DIR's own,
// or those of a cluster.
func (e *exam) brokers() []broker.Dir {
	if cluster, err := broker.LoadCluster(string(e.Dir)); err != nil || cluster == nil {
		return []broker.Dir{broker.Dir(e.Dir)}
	}
	nodes, _ := filepath.Glob(filepath.Join(string(e.Dir), "nodes", "*"))
	dirs := make([]broker.Dir, len(nodes))
	for i, n := range nodes {
		dirs[i] = broker.Dir(n)
	}
	return dirs
}

// files looks at modes and owners, for offline seeds, and for unfinished work.
func (e *exam) files(context.Context) {
	e.secrets()
	e.rooms()
	e.offline()
	e.unfinished()
}

// secrets wants every key and credential to be its owner's alone.
func (e *exam) secrets() {
	const check = "secrets"
	files := e.Dir.Logger()
	paths := []string{files.Key(), filepath.Join(string(files), "hmac.key"), filepath.Join(string(files), "key.next")}
	creds, _ := filepath.Glob(filepath.Join(e.CredsDir, "*"+principal.CredentialSuffix))
	tokens, _ := filepath.Glob(filepath.Join(e.CredsDir, "*.token"))
	creds = append(creds, tokens...)
	paths = append(paths, broker.Dir(e.Dir).ClusterSecret())
	for _, b := range e.brokers() {
		if b != broker.Dir(e.Dir) { // DIR's cluster.json has no secret
			paths = append(paths, b.Cluster())
		}
	}
	bad, seen := 0, 0
	for _, path := range append(paths, creds...) {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			e.add(check, unreadable(err), err.Error(), "")
			continue
		}
		seen++
		mode := info.Mode().Perm()
		do := fmt.Sprintf("chmod 0600 %s, and treat the secret as known to others: replace it", path)
		switch {
		case mode&0o007 != 0:
			bad++
			e.add(check, Fail, fmt.Sprintf("%s has mode %04o: every user of this host may use it", path, mode), do)
		case mode&0o070 != 0:
			bad++
			e.add(check, Warn, fmt.Sprintf("%s has mode %04o: its group may use it", path, mode), "chmod 0600 "+path+", unless the group is meant")
		}
	}
	if bad == 0 && seen > 0 {
		e.add(check, OK, fmt.Sprintf("%d keys and credentials are their owners' alone", seen), "")
	}
}

// rooms wants nobody but their owners, and perhaps their groups, in the
// services' directories.
func (e *exam) rooms() {
	const check = "directories"
	owners := map[uint32]bool{}
	bad := 0
	rooms := []string{
		string(e.Dir.Logger()), e.Dir.Creds(), e.Dir.Views(), e.Dir.Snapshots(), e.Dir.Blobs(), e.Dir.Resolver(), e.Dir.Gateway(), e.Dir.Run(),
	}
	for _, b := range e.brokers() {
		rooms = append(rooms, b.Store())
	}
	for _, path := range rooms {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			e.add(check, unreadable(err), err.Error(), "")
			continue
		}
		owner := ownerOf(info)
		owners[owner] = true
		if strange := strangers(path, owner); path != e.Dir.Creds() && path != e.Dir.Run() && len(strange) > 0 { // each credential and socket has its own
			bad++
			e.add(check, Warn, fmt.Sprintf("%s belongs to uid %d, and in it %s to others: the service may fail to write them", path, owner, strings.Join(strange, ", ")),
				fmt.Sprintf("chown -R %d %s, with the service stopped", owner, path))
		}
		closed := fs.FileMode(0o007)
		if path == e.Dir.Run() {
			closed = 0o002 // callers pass through it to the gateway's socket; each socket has a mode of its own
		}
		if mode := info.Mode().Perm(); mode&closed != 0 {
			bad++
			e.add(check, Fail, fmt.Sprintf("%s has mode %04o: others than its service may enter", path, mode), "chmod o-rwx "+path)
		}
	}
	if bad == 0 {
		e.add(check, OK, "nobody but owners and their groups may enter the services' directories", "")
	}
	if len(owners) == 1 {
		e.add("boundary", Warn, "every directory has the same owner: whoever runs one service can forge a ledger that verifies",
			"fit for trying assay out; for evidence give each service its own user (deploy/README.md)")
	} else {
		e.add("boundary", OK, fmt.Sprintf("the services' directories have %d owners", len(owners)), "")
	}
}

func ownerOf(info fs.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }

// strangers names what in a directory has another owner: a command that was
// run as root leaves such.
func strangers(dir string, owner uint32) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // another user's, which rooms has said if it is wrong
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && ownerOf(info) != owner {
			names = append(names, entry.Name())
		}
	}
	return names
}

func (e *exam) offline() {
	const check = "offline seeds"
	var found []string
	err := filepath.WalkDir(string(e.Dir), func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir() && (path == e.Dir.Blobs() || d.Name() == "jetstream" && filepath.Base(filepath.Dir(path)) == "broker"):
			return fs.SkipDir // large, and not where seeds are put
		case slices.Contains(offlineSeeds, d.Name()):
			found = append(found, path)
		}
		return nil
	})
	switch {
	case err != nil:
		e.add(check, Unknown, err.Error(), "")
	case len(found) > 0:
		e.add(check, Fail, strings.Join(found, ", ")+": they can replace the ledger's streams and its key",
			"move them to a medium that is not on this machine")
	default:
		e.add(check, OK, "none in "+string(e.Dir), "")
	}
}

// unfinished looks for what an interrupted act left behind.
func (e *exam) unfinished() {
	const check = "unfinished work"
	files, found := e.Dir.Logger(), false
	for path, what := range map[string][2]string{
		filepath.Join(string(files), "key.next"): {"a new signing key waits", "restart the logger: the rotation takes effect when it starts"},
		files.Restoring():                        {"a restore was not finished, and the logger will not start", "run `assay restore` again"},
	} {
		if _, err := os.Stat(path); err == nil {
			found = true
			e.add(check, Warn, what[0]+" ("+path+")", what[1])
		}
	}
	if !found {
		e.add(check, OK, "no rotation and no restore under way", "")
	}
}

// blobs counts what interrupted puts left behind.
func (e *exam) blobs(context.Context) {
	const check = "blob store"
	store, err := blob.OpenExisting(e.Dir.Blobs())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var n, size int64
	if err == nil {
		n, size, err = store.Leftovers()
	}
	switch {
	case err != nil:
		e.add(check, unreadable(err), err.Error(), "")
	case n > 0:
		e.add(check, Warn, fmt.Sprintf("%d files of %d bytes in %s are no blobs: interrupted puts leave such, and they may hold content", n, size, e.Dir.Blobs()),
			"remove them while no `blob put` runs")
	default:
		e.add(check, OK, "nothing but blobs in it", "")
	}
}

// room holds the disks against the low-water mark.
func (e *exam) room(context.Context) {
	const check = "disk"
	looked := map[unix.Fsid]bool{}
	paths := []string{string(e.Dir.Logger()), e.Dir.Views(), e.Dir.Blobs()}
	for _, b := range e.brokers() {
		paths = append(paths, b.Store())
	}
	for _, path := range paths {
		var st unix.Statfs_t
		if err := unix.Statfs(path, &st); err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				e.add(check, Unknown, fmt.Sprintf("%s: %v", path, err), "")
			}
			continue
		}
		if looked[st.Fsid] {
			continue
		}
		looked[st.Fsid] = true
		e.judgeRoom(check, st.Bavail*uint64(st.Bsize), "on the disk of "+path)
	}
	for _, s := range e.statuses {
		if s.Broker != nil && s.Broker.StoreRoom != nil {
			e.judgeRoom("store limit", *s.Broker.StoreRoom, "before the broker's store limit")
		}
	}
}

func (e *exam) judgeRoom(check string, free uint64, where string) {
	seen := fmt.Sprintf("%d MiB free %s, the low-water mark is %d MiB", free>>20, where, e.LowWater>>20)
	const do = "make room, or raise --max-store; the intake resumes by itself"
	switch {
	case free < e.LowWater:
		e.add(check, Fail, seen+": the intake refuses all but resolver and operator", do)
	case free/4 < e.LowWater:
		e.add(check, Warn, seen, do)
	default:
		e.add(check, OK, seen, "")
	}
}
