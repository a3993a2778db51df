package detector

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Turn is what one author says at a time.
type Turn struct {
	Episode   string `json:"episode"`
	ID        string `json:"turn_id"`
	Component string `json:"component,omitzero"` // who speaks, such as worker; "" is as the role
	Role      string `json:"role"`
	Text      string `json:"text"`
	Time      string `json:"time,omitzero"` // RFC 3339; "" is when it is told of

	source string // the principal who sent it; "" of a file
}

// ErrTurn means that a turn cannot be told of: it lacks an id, an episode or a role, or
// has what no event can say.
var ErrTurn = errors.New("not a turn that can be told of")

const (
	maxComponent = 256 // bytes
	maxEpisode   = 128
)

// check is the turn's role, or ErrTurn. What it lets pass makes events that the ledger
// takes, so that no turn can keep those of others waiting behind it.
func (t *Turn) check() (Role, error) {
	role, err := ParseRole(t.Role)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: %w", ErrTurn, err)
	case t.ID == "" || t.Episode == "" || len(t.Episode) > maxEpisode || len(t.Component) > maxComponent:
		return 0, fmt.Errorf("%w: turn %q of episode %q", ErrTurn, t.ID, t.Episode)
	case !utf8.ValidString(t.Episode) || !utf8.ValidString(t.Component):
		return 0, fmt.Errorf("%w: turn %q of episode %q: not UTF-8", ErrTurn, t.ID, t.Episode)
	}
	if _, err := t.at(); err != nil {
		return 0, fmt.Errorf("%w: turn %q of episode %q: %w", ErrTurn, t.ID, t.Episode, err)
	}
	return role, nil
}

// at is the turn's time in UTC; zero where it has none.
func (t *Turn) at() (at time.Time, err error) {
	if t.Time == "" {
		return at, nil
	}
	if at, err = time.Parse(time.RFC3339, t.Time); err != nil {
		return at, err
	}
	if at = at.UTC(); at.Year() < 1 || at.Year() > 9999 { // in UTC
		return at, fmt.Errorf("%s is no time that an event can have", t.Time)
	}
	return at, nil
}

// Role is who an author is to the agent.
type Role uint8

// The roles that a turn can have.
const (
	RoleOperator Role = iota + 1 // a person: user, operator, human
	RoleAgent                    // the agent or one of its workers: assistant, agent, worker
	RoleTool                     // what a tool or a system prompt says: nobody's own words, and not scanned
)

// ErrRole means that a turn has no role that is known.
var ErrRole = errors.New("no such role")

// ParseRole reads a turn's role.
func ParseRole(s string) (Role, error) {
	switch s {
	case "user", "operator", "human":
		return RoleOperator, nil
	case "assistant", "agent", "worker":
		return RoleAgent, nil
	case "tool", "system", "developer":
		return RoleTool, nil
	}
	return 0, fmt.Errorf("%w: %q", ErrRole, s)
}

func (r Role) String() string { return [...]string{"", "operator", "agent", "tool"}[r] }
