package node

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"assay/cmd/internal/hooks"
	"assay/events/gateway"
	"assay/ledger/logger"
)

// The users that the directory is split among are <prefix>-<service>; beside
// them there are three groups.
const (
	// members (<prefix>) are the services and the operators: they read what is
	// common to them, the configuration and the signed checkpoints.
	members = ""
	// operators (<prefix>-operators) use the operator's credentials and ask the
	// running services.
	operators = "operators"
	// agents (<prefix>-agents) may open the gateway's socket.
	agents = "agents"
	// root owns what no service may change.
	root = "root"
)

// uid names a user by number in a rule, in place of a service.
func uid(n uint32) string { return "#" + strconv.FormatUint(uint64(n), 10) }

// rule says whose the entries are that match a pattern of path.Match, relative
// to the directory. The first rule that matches counts.
type rule struct {
	pattern      string
	owner, group string
	mode         fs.FileMode
	// deep: everything below is the owner's too, whatever its mode: who cannot
	// pass the directory does not reach it.
	deep bool
}

func private(pattern, owner string) rule { return rule{pattern, owner, owner, 0o700, true} }

func credential(user, owner string) rule {
	return rule{"creds/" + user + ".nk", owner, owner, 0o400, false}
}

func socketDir(service, group string) rule {
	return rule{"run/" + service, strings.TrimSuffix(service, "-status"), group, fs.ModeSetgid | 0o711, true}
}

// rules is the whole split of a directory. What matches none is root's alone.
var rules = []rule{
	// Listed by the services: a store syncs the directory that it stands in.
	{".", root, members, 0o751, false},
	{"principals.json", root, members, 0o640, false},
	{"registry.json", root, members, 0o640, false},
	{"witness-policy.txt", root, members, 0o640, false},
	{"gateway.json", root, "gateway", 0o640, false},
	// Where the brokers of a cluster are; the secret beside it is root's.
	{"cluster.json", root, members, 0o640, false},
	// What a broker of a cluster has is the broker's, but root writes there, so
	// that the directory is root's: nobody can put a link in the way.
	{"nodes", root, members, 0o750, false},
	{"nodes/*", root, members, 0o750, false},
	private("nodes/*/broker", "broker"),
	{"nodes/*/run", "broker", members, fs.ModeSetgid | 0o750, true},
	{"nodes/*/*", "broker", "broker", 0o600, false},
	private("broker", "broker"),
	{"logger", "logger", members, 0o710, false},
	{"logger/key.pub", "logger", "logger", 0o644, false},
	{"logger/keyring", "logger", "logger", 0o644, false},
	{"logger/checkpoint", "logger", members, 0o750, false},
	{"logger/checkpoint/lost", "logger", members, 0o750, false},
	{"logger/checkpoint/*", "logger", "logger", 0o644, false},
	{"logger/checkpoint/lost/*", "logger", "logger", 0o644, false},
	private("logger/index*", "logger"),
	{"logger/*", "logger", "logger", 0o600, false},
	private("views", "projector"),
	private("snapshots", "projector"),
	private("blobs", "resolver"),
	private("resolver", "resolver"),
	private("gateway", "gateway"),
	private("telemetry", "sensor"),
	{"hooks", root, members, 0o751, false}, // the drops in it are the agents' (split.drops)
	{"creds", root, members, 0o710, false},
	credential("service.logger-*", "logger"),
	credential("service.ingress", "ingress"),
	credential("service.sealer", "resolver"),
	credential("service.read-resolver", "resolver"),
	credential("service.read-projector", "projector"),
	{"creds/service.read-operator.nk", root, operators, 0o440, false},
	credential("resolver.*", "resolver"),
	{"creds/operator.*.nk", root, operators, 0o440, false},
	credential("sensor.*", "sensor"),
	{"creds/*.token", "gateway", "gateway", 0o400, false},
	// The gateway speaks for everyone else who may publish.
	credential("*", "gateway"),
	{"run", root, members, 0o751, false},
	// Set-gid: sockets get the group of those who may open them.
	socketDir("broker", members),
	socketDir("logger", operators),
	socketDir("projector", operators),
	socketDir("resolver", operators),
	socketDir("ingress", operators),
	socketDir("sensor", operators),
	{"run/gateway", "gateway", agents, fs.ModeSetgid | 0o710, true}, // the callers' door
	socketDir("gateway-status", operators),
}

// runLinks are the names in DIR/run that lead into the services' own
// directories there: no service can put its socket in another's place.
var runLinks = map[string]string{
	"nats.url": "broker/nats.url", "broker.sock": "broker/broker.sock", "logger.sock": "logger/logger.sock",
	"assay.sock": "projector/assay.sock", "resolver.sock": "resolver/resolver.sock",
	"ingress.sock": "ingress/ingress.sock", "sensor.sock": "sensor/sensor.sock", "gateway.sock": "gateway/gateway.sock",
	"gateway-status.sock": "gateway-status/gateway-status.sock",
}

// Deviation is an entry of the directory that is not as the split wants it.
type Deviation struct {
	Path string `json:"path"` // relative to the directory
	Want string `json:"want"` // owner:group mode
	Got  string `json:"got"`
}

// PermissionsConfig says how a directory is split.
type PermissionsConfig struct {
	Dir Dir
	// Prefix begins the names of users and groups; "" is assay.
	Prefix string
	// Instances are loggers that stand by on Dir. One that ran already is found
	// by its index.
	Instances []string
	// Check changes nothing.
	Check bool
}

// Permissions gives every entry of a directory to the user of the service that
// it belongs to, as root, and lists what it changed. The services must be
// stopped the first time; later it may be repeated while they run.
//
// The services' own directories are theirs to fill with traps for root, so
// nothing is followed: every entry is opened from its directory's descriptor,
// never through a link, and changed by its own.
func Permissions(c PermissionsConfig) ([]Deviation, error) {
	nodes, err := filepath.Glob(c.Dir.join("nodes", "*"))
	if err != nil {
		return nil, err
	}
	whole := c.Dir.Check()
	if whole != nil && len(nodes) == 0 { // a host may have a broker of a cluster and nothing else
		return nil, whole
	}
	if c.Prefix == "" {
		c.Prefix = "assay"
	}
	s := &split{prefix: c.Prefix, check: c.Check, ids: map[string]int{}, rooms: map[string]rule{}, found: []Deviation{}}
	for _, n := range nodes {
		if err := s.room(c.Dir, filepath.Join("nodes", filepath.Base(n), "run")); err != nil {
			return s.found, err
		}
	}
	if whole == nil {
		if err := s.links(c); err != nil {
			return s.found, err
		}
		if err := s.drops(c.Dir); err != nil {
			return s.found, err
		}
	}
	slices.SortFunc(s.found, func(a, b Deviation) int { return strings.Compare(a.Path, b.Path) })
	top, err := os.Open(string(c.Dir))
	if err != nil {
		return nil, err
	}
	defer top.Close()
	return s.found, s.entry(top, ".", nil)
}

// split is one pass over a directory.
type split struct {
	prefix string
	check  bool
	ids    map[string]int  // of "user NAME" and "group NAME"
	rooms  map[string]rule // of agents: nothing below them is looked at
	found  []Deviation
}

// entry puts an open file or directory right and goes on below it. above is
// the deep rule of a directory on the way to it, if there is one.
func (s *split) entry(f *os.File, rel string, above *rule) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("%s: %w", rel, err)
	}
	if r, ok := s.rooms[rel]; ok {
		return s.enforce(f, rel, info, r, false)
	}
	r := above
	if r == nil {
		found := ruleOf(rel, info.IsDir())
		r = &found
	}
	if err := s.enforce(f, rel, info, *r, above != nil); err != nil {
		return fmt.Errorf("%s: %w", rel, err)
	}
	if !info.IsDir() {
		return nil
	}
	if r.deep {
		above = &rule{owner: r.owner, group: r.group, deep: true}
	}
	names, err := f.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("%s: %w", rel, err)
	}
	for _, name := range names {
		if err := s.below(f, name, path.Join(rel, name), above); err != nil {
			return err
		}
	}
	return nil
}

func (s *split) below(dir *os.File, name, rel string, above *rule) error {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENOENT):
		return nil // a link, a socket, or gone: its maker's
	case err != nil:
		return fmt.Errorf("%s: %w", rel, err)
	}
	f := os.NewFile(uintptr(fd), rel)
	defer f.Close()
	return s.entry(f, rel, above)
}

// ruleOf is the rule of an entry that stands below no deep one.
func ruleOf(rel string, dir bool) rule {
	for _, r := range rules {
		if ok, _ := path.Match(r.pattern, rel); ok {
			if dir && r.mode&0o111 == 0 {
				r.mode |= r.mode >> 2 & 0o111
			}
			return r
		}
	}
	if dir {
		return rule{"", root, root, 0o700, true}
	}
	return rule{"", root, root, 0o600, false}
}

// enforce compares an entry with its rule and changes it. Below a deep rule
// the mode is the owner's to choose.
func (s *split) enforce(f *os.File, rel string, info fs.FileInfo, want rule, owned bool) error {
	uid, err := s.id("user", want.owner)
	if err != nil {
		return err
	}
	gid, err := s.id("group", want.group)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	mode := info.Mode() & (fs.ModePerm | fs.ModeSetgid)
	if owned {
		want.mode = mode
	}
	if int(st.Uid) == uid && int(st.Gid) == gid && mode == want.mode {
		return nil
	}
	s.found = append(s.found, Deviation{
		Path: rel,
		Want: fmt.Sprintf("%d:%d %s", uid, gid, want.mode),
		Got:  fmt.Sprintf("%d:%d %s", st.Uid, st.Gid, mode),
	})
	if s.check {
		return nil
	}
	if err := f.Chown(uid, gid); err != nil { // it drops set-gid
		return err
	}
	return f.Chmod(want.mode)
}

// id is the number of a user or group by its part in the rules.
func (s *split) id(kind, part string) (int, error) {
	if part == root {
		return 0, nil
	}
	if n, ok := strings.CutPrefix(part, "#"); ok {
		return strconv.Atoi(n)
	}
	name := s.prefix
	if part != members {
		name += "-" + part
	}
	key := kind + " " + name
	if n, ok := s.ids[key]; ok {
		return n, nil
	}
	var text string
	if kind == "user" {
		u, err := user.Lookup(name)
		if err != nil {
			return 0, fmt.Errorf("%w: make the users first (deploy/README.md)", err)
		}
		text = u.Uid
	} else {
		g, err := user.LookupGroup(name)
		if err != nil {
			return 0, fmt.Errorf("%w: make the groups first (deploy/README.md)", err)
		}
		text = g.Gid
	}
	n, err := strconv.Atoi(text)
	if err == nil {
		s.ids[key] = n
	}
	return n, err
}

// linksOf are runLinks, one for each source that has a sensor of its own, and one
// for each logger that stands by.
func linksOf(c PermissionsConfig) (map[string]string, error) {
	links := maps.Clone(runLinks)
	const index = "index-"
	indexes, err := filepath.Glob(filepath.Join(string(c.Dir.Logger()), index+"*"))
	if err != nil {
		return nil, err
	}
	for _, name := range c.Instances {
		if err := logger.CheckInstance(name); err != nil {
			return nil, err
		}
	}
	instances := slices.Clone(c.Instances)
	for _, path := range indexes {
		instances = append(instances, strings.TrimPrefix(filepath.Base(path), index))
	}
	for _, name := range instances {
		links["logger-"+name+".sock"] = "logger/logger-" + name + ".sock"
	}
	reg, err := LoadRegistry(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return links, nil
	}
	if err != nil {
		return nil, err
	}
	for _, name := range adapted(reg) {
		links["sensor-"+name+".sock"] = "sensor/sensor-" + name + ".sock"
	}
	return links, nil
}

// drops makes a directory for the hooks of each agent whom gateway.json gives a Unix
// user: that user's, and the gateway's group's, which takes out what it delivered.
// Whose the files in it are is looked at by whoever reads them. Nothing is given
// away here: another user's file must not become an event of hers.
func (s *split) drops(d Dir) error {
	if err := s.room(d, "hooks"); err != nil {
		return err
	}
	file, err := gateway.Load(d.GatewayFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	users, err := file.Users()
	if err != nil {
		return err
	}
	for id, n := range users {
		if !hooks.IsAgent(id) {
			continue
		}
		to := string(hooks.DropOf("", id))
		if err := s.room(d, to); err != nil {
			return err
		}
		s.rooms[to] = rule{to, uid(n), "gateway", fs.ModeSetgid | 0o770, false}
	}
	return nil
}

// links makes the directories in DIR/run and the links that lead into them.
func (s *split) links(c PermissionsConfig) error {
	links, err := linksOf(c)
	if err != nil {
		return err
	}
	for name, to := range links {
		link := filepath.Join(c.Dir.Run(), name)
		if have, err := os.Readlink(link); err == nil && have == to {
			continue
		}
		s.found = append(s.found, Deviation{Path: path.Join("run", name), Want: "a link to " + to, Got: "none"})
		if s.check {
			continue
		}
		service, _, _ := strings.Cut(to, "/")
		if err := os.Mkdir(filepath.Join(c.Dir.Run(), service), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink(to, link); err != nil {
			return err
		}
	}
	return nil
}

// room makes a directory for sockets, unless it is there.
func (s *split) room(d Dir, rel string) error {
	if _, err := os.Lstat(d.join(rel)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.found = append(s.found, Deviation{Path: rel, Want: "a directory", Got: "none"})
	if s.check {
		return nil
	}
	return os.Mkdir(d.join(rel), 0o700)
}
