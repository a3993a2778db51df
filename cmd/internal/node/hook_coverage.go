package node

import (
	"context"
	"net/url"

	"assay/events"
	"assay/events/hook"
	"assay/projector"
	"assay/projector/view"
)

// HookCoverage is a transcript held against the ledger.
type HookCoverage struct {
	Ended    int          `json:"ended"`    // calls with a result in the transcript
	Open     int          `json:"open"`     // calls without one
	Recorded int          `json:"recorded"` // of those that ended
	Coverage *float64     `json:"coverage"` // recorded of ended; null where none ended
	Missing  []MissedCall `json:"missing"`
}

// MissedCall is a call of the transcript that nobody recorded when it was made.
type MissedCall struct {
	hook.Call `json:"-"`
	Episode   string `json:"episode_id"`
	ID        string `json:"tool_call_id"`
	ToolName  string `json:"tool"`
}

// maxCalls is how many calls the running projector is asked for at once.
const maxCalls = 100

// CoverHooks looks the calls of a transcript up in the views, running or not. A
// call that only an import told of is missing.
func CoverHooks(ctx context.Context, dir Dir, calls []hook.Call) (HookCoverage, error) {
	out := HookCoverage{Missing: []MissedCall{}}
	var ended []hook.Call
	for _, c := range calls {
		if c.Ended {
			ended = append(ended, c)
		} else {
			out.Open++
		}
	}
	for from := 0; from < len(ended); from += maxCalls {
		some := ended[from:min(from+maxCalls, len(ended))]
		q := url.Values{}
		for _, c := range some {
			q.Add("episode", c.EpisodeID())
			q.Add("call", c.ToolCallID())
		}
		recorded, err := AskViews(ctx, dir, "/calls", q, func(s *projector.State) ([]bool, error) {
			return recordedCalls(s, q["episode"], q["call"])
		})
		if err != nil {
			return out, err
		}
		for i, c := range some {
			if !recorded[i] {
				out.Missing = append(out.Missing, MissedCall{c, c.EpisodeID(), c.ToolCallID(), c.Tool})
			}
		}
	}
	out.Ended = len(ended)
	out.Recorded = out.Ended - len(out.Missing)
	if out.Ended > 0 {
		share := float64(out.Recorded) / float64(out.Ended)
		out.Coverage = &share
	}
	return out, nil
}

// recordedCalls says of each call whether anybody recorded it live.
func recordedCalls(s *projector.State, episodes, ids []string) ([]bool, error) {
	out := make([]bool, len(ids))
	for i, id := range ids {
		calls, err := view.FindToolCall(s, id)
		if err != nil {
			return nil, err
		}
		for _, c := range calls {
			if c.Witness != events.WitnessImported && (c.EpisodeID == "" || c.EpisodeID == episodes[i]) {
				out[i] = true
			}
		}
	}
	return out, nil
}
