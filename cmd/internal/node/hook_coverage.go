package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"assay/events"
	"assay/events/hook"
	"assay/events/importer"
	"assay/projector"
	"assay/projector/view"
)

// HookCoverage is a transcript held against the ledger.
type HookCoverage struct {
	Ended    int              `json:"ended"`    // calls with a result in the transcript
	Open     int              `json:"open"`     // calls without one
	Recorded int              `json:"recorded"` // of those that ended
	Coverage *float64         `json:"coverage"` // recorded of ended; null where none ended
	Missing  []TranscriptCall `json:"missing"`  // that nobody recorded when they were made
}

// TranscriptCall is a tool call of a transcript.
type TranscriptCall struct {
	EpisodeID  string `json:"episode_id"`
	ToolCallID string `json:"tool_call_id"`
	Tool       string `json:"tool"`
	// Ended says that the transcript holds its result. Without one it never ran, or
	// runs still.
	Ended bool `json:"-"`
	// Raw is the event that an import of the transcript makes of it.
	Raw []byte `json:"-"`
}

// TranscriptCalls are the calls of a client's transcript to which the client gave an
// id, in the order in which they ended. A last line without its end is being written
// and is passed over; another that cannot be read is an error.
func TranscriptCalls(client hook.Client, in io.Reader) ([]TranscriptCall, error) {
	var calls []TranscriptCall
	lines := &lineCounter{in: in}
	report, err := importer.Read(lines, importer.Config{
		Format: string(client), // each client is a format
		May:    func(typ string) bool { return typ == events.TypeToolCalled },
		Put: func(e importer.Event) error {
			c, err := transcriptCall(e)
			if err == nil && !strings.HasPrefix(c.ToolCallID, importer.MadeID) {
				calls = append(calls, c)
			}
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	for _, bad := range report.Listed {
		if bad.Line <= lines.ended {
			return nil, fmt.Errorf("line %d of the transcript: %s: %s", bad.Line, bad.Kind, bad.Message)
		}
	}
	return calls, nil
}

func transcriptCall(e importer.Event) (TranscriptCall, error) {
	env, err := events.Decode(e.Raw)
	if err != nil {
		return TranscriptCall{}, err
	}
	d, ok := env.Data.(*events.ToolCalled)
	if !ok {
		return TranscriptCall{}, fmt.Errorf("an event of type %s among tool calls", env.Type)
	}
	return TranscriptCall{
		EpisodeID: env.EpisodeID, ToolCallID: d.ToolCallID, Tool: d.Tool, Raw: e.Raw,
		Ended: d.EndedAt != nil || d.ResultHash != nil || d.Status != "unknown",
	}, nil
}

// lineCounter counts the lines that have an end.
type lineCounter struct {
	in    io.Reader
	ended int64
}

// Read implements io.Reader.
func (l *lineCounter) Read(p []byte) (int, error) {
	n, err := l.in.Read(p)
	l.ended += int64(bytes.Count(p[:n], []byte("\n")))
	return n, err
}

// maxCalls is how many calls the running projector is asked for at once.
const maxCalls = 100

// CoverHooks looks the calls of a transcript up in the views, running or not. A
// call that only an import told of is missing.
func CoverHooks(ctx context.Context, dir Dir, calls []TranscriptCall) (HookCoverage, error) {
	out := HookCoverage{Missing: []TranscriptCall{}}
	var ended []TranscriptCall
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
			q.Add("episode", c.EpisodeID)
			q.Add("call", c.ToolCallID)
		}
		recorded, err := AskViews(ctx, dir, "/calls", q, func(s *projector.State) ([]bool, error) {
			return recordedCalls(s, q["episode"], q["call"])
		})
		if err != nil {
			return out, err
		}
		for i, c := range some {
			if !recorded[i] {
				out.Missing = append(out.Missing, c)
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
