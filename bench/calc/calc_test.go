package calc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// small limits for tests of the limits.
var small = Limits{Cost: 1e6, Line: 200}

func TestErrors(t *testing.T) {
	for name, tc := range map[string]struct{ line, want string }{
		"no JSON":              {`nope`, `{"id":null,"ok":false,"error":{"code":"bad_json","pointer":"",`},
		"nothing":              {``, `{"id":null,"ok":false,"error":{"code":"bad_json","pointer":"",`},
		"two values":           {`{"op":"brier"} {}`, `{"id":null,"ok":false,"error":{"code":"bad_json",`},
		"a name twice":         {`{"id":1,"op":"brier","p":[],"p":[]}`, `{"id":null,"ok":false,"error":{"code":"bad_json",`},
		"bad UTF-8":            {"{\"id\":\"\xff\"}", `{"id":null,"ok":false,"error":{"code":"bad_json",`},
		"no object":            {`[1]`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"","message":"want an object"}}`},
		"no op":                {`{"id":7}`, `{"id":7,"ok":false,"error":{"code":"bad_request","pointer":"/op",`},
		"op is no text":        {`{"id":7,"op":1}`, `{"id":7,"ok":false,"error":{"code":"bad_request","pointer":"/op",`},
		"another op":           {`{"id":[{}],"op":"guess"}`, `{"id":[{}],"ok":false,"error":{"code":"unsupported_op","pointer":"/op",`},
		"null for a number":    {`{"op":"brier","p":[0.5,null],"y":[0,1]}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/p/1","message":"null is not a value"}}`},
		"null for a text":      {`{"op":"proportion_ci","method":null}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/method","message":"null is not a value"}}`},
		"text for a number":    {`{"op":"brier","p":[0.5,"1"],"y":[0,1]}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/p/1","message":"want a number"}}`},
		"number out of range":  {`{"op":"brier","p":[1e400],"y":[0]}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/p/0",`},
		"no probability":       {`{"op":"brier","p":[0.5,1.01],"y":[0,1]}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/p/1","message":"want a probability"}}`},
		"no list":              {`{"op":"brier","y":[]}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/p",`},
		"lists that differ":    {`{"op":"brier","p":[0.5],"y":[0,1]}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/y",`},
		"no outcome":           {`{"op":"auroc","p":[0.5,3],"y":[0,0.5]}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/y/1","message":"want 0 or 1"}}`},
		"missing number":       {`{"op":"binomial_test","k":1,"n":2}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/p","message":"a number is required"}}`},
		"more than all":        {`{"op":"binomial_test","k":3,"n":2,"p":0.5}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/k","message":"want at most 2"}}`},
		"half a count":         {`{"op":"binomial_test","k":0.5,"n":2,"p":0.5}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/k",`},
		"past exact counts":    {`{"op":"binomial_test","k":3,"n":200001,"p":0.5}`, `{"id":null,"ok":false,"error":{"code":"too_large","pointer":"/n",`},
		"past the cost":        {`{"op":"bootstrap","data":[1,2],"n_boot":9804}`, `{"id":null,"ok":false,"error":{"code":"too_large","pointer":"","message":"the answer costs 1000008 steps, the limit is 1000000"}}`},
		"past the line":        {`{"id":1,"op":"brier","p":[` + strings.Repeat("0,", 100) + `0],"y":[]}`, `{"id":null,"ok":false,"error":{"code":"too_large","pointer":"","message":"a request may have 200 bytes"}}`},
		"not square":           {`{"op":"cohen_kappa","table":[[1,2],[3]]}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/table/1",`},
		"no table":             {`{"op":"cohen_kappa"}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"",`},
		"not two by two":       {`{"op":"mcnemar","table":[[1]]}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/table",`},
		"one arm twice":        {`{"op":"cluster_bootstrap","clusters":{},"arms":["a","a"]}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/arms/1",`},
		"one arm":              {`{"op":"cluster_bootstrap","clusters":{},"arms":["a"]}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/arms",`},
		"probs that add to 2":  {`{"op":"ece","probs":[[1,1]],"label":[0]}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/probs/0",`},
		"label past the class": {`{"op":"ece","probs":[[1,0]],"label":[2]}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/label/0",`},
		"bounds reversed":      {`{"op":"tost","kind":"z_proportion","successes":1,"n":2,"low":1,"high":0}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/high",`},
		"effect too large":     {`{"op":"power","design":"paired_binary","discordance":0.1,"effect":0.2,"power":0.8}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"/effect",`},
		"power and n":          {`{"op":"power","design":"paired_binary","discordance":0.1,"effect":0.1,"power":0.8,"n":3}`, `{"id":null,"ok":false,"error":{"code":"bad_request","pointer":"",`},
	} {
		if got := string(Answer([]byte(tc.line), small)); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: got  %s\nwant %s", name, got, tc.want)
		}
	}
}

// What is not known is null, with the reason.
func TestNothingIsNull(t *testing.T) {
	for line, want := range map[string]string{
		`{"op":"proportion_ci","method":"wilson","k":0,"n":0}`:                                      `"low":null,"high":null,"unavailable":"no_trials"`,
		`{"op":"binomial_test","k":0,"n":0,"p":0.5}`:                                                `"two_sided_p":null,"unavailable":"no_trials"`,
		`{"op":"mcnemar","table":[[3,0],[0,4]]}`:                                                    `"exact_p":null,"chi2":null,"chi2_p":null,"chi2_continuity_p":null,"unavailable":"no_discordant_pairs"`,
		`{"op":"cohen_kappa","table":[[3]]}`:                                                        `"kappa":null,"ase":null,"low":null,"high":null,"ase0":null,"z":null,"p_two_sided":null,"unavailable":"chance_agrees_always"`,
		`{"op":"brier","p":[],"y":[]}`:                                                              `"brier":null,"n":0,"unavailable":"no_cases"`,
		`{"op":"log_loss","p":[],"y":[]}`:                                                           `"log_loss":null,"clamped":0,"n":0,"unavailable":"no_cases"`,
		`{"op":"ece","p":[],"y":[]}`:                                                                `"ece":null,"n":0,"norm":"l1","bins":[],"unavailable":"no_cases"`,
		`{"op":"ece","p":[0.9],"y":[1],"bins":2}`:                                                   `"bins":[{"low":0,"high":0.5,"n":0,"confidence":null,"frequency":null},{"low":0.5,"high":1,"n":1,"confidence":0.9,"frequency":1}]`,
		`{"op":"auroc","p":[0.1,0.2],"y":[1,1]}`:                                                    `"auroc":null,"n":2,"unavailable":"one_class"`,
		`{"op":"tost","kind":"one_sample_t","m":1,"mu":0,"sd":1,"n":1,"low":-1,"high":1}`:           `"p":null,"unavailable":"no_variance"`,
		`{"op":"tost","kind":"paired_t","x":[1,2],"y":[0,1],"eps":1}`:                               `"ci90":null,"unavailable":"no_variance"`,
		`{"op":"tost","kind":"z_proportion","successes":5,"n":5,"low":0,"high":1}`:                  `"ci90":null,"unavailable":"no_variance"`,
		`{"op":"tost","kind":"binomial_tost_power","n":0,"low":0,"high":1,"p_alt":[0.5]}`:           `"power":null,"unavailable":"no_trials"`,
		`{"op":"bootstrap","data":[]}`:                                                              `"estimate":null,"percentile":null,"basic":null,"bca":null,"n":0,`,
		`{"op":"bootstrap","data":[2,2]}`:                                                           `"estimate":2,"percentile":null,"basic":null,"bca":null,"n":2,`,
		`{"op":"bootstrap","data":[1e308,1e308]}`:                                                   `"unavailable":"not_finite"`,
		`{"op":"cluster_bootstrap","clusters":{"w":{"a":[1],"b":[null]}},"arms":["a","b"]}`:         `"estimate":null,"low":null,"high":null,"suppressed":"no_cluster","n_clusters":0,"n_incomplete":1,`,
		`{"op":"cluster_bootstrap","clusters":{"w":{"a":[1],"b":[0]}},"arms":["a","b"]}`:            `"estimate":1,"low":null,"high":null,"suppressed":"too_few_clusters","n_clusters":1,"n_incomplete":0,"min_clusters":5,`,
		`{"op":"noninferiority","clusters":{},"arms":["a","b"],"margin":0.1,"better":"higher"}`:     `"verdict":"inconclusive","equivalent":null,"estimate":null,"low":null,"high":null,"suppressed":"no_cluster",`,
		`{"op":"power","design":"paired_binary","discordance":0.1,"effect":0.1,"alpha":0.05,"n":0}`: `"power":null,"unavailable":"no_cases"`,
	} {
		got := string(Answer([]byte(line), DefaultLimits))
		if !strings.HasPrefix(got, `{"id":null,"ok":true,`) || !strings.Contains(got, want) {
			t.Errorf("%s\ngot  %s\nwant %s", line, got, want)
		}
	}
}

// docs/calc.md shows requests, each before its reply. The last bits of a number
// may differ between machines.
func TestDocumentedReplies(t *testing.T) {
	page, err := os.ReadFile("../../docs/calc.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	var request string
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "> "); ok {
			request = rest
		} else if want, ok := strings.CutPrefix(line, "< "); ok {
			got := Answer([]byte(request), DefaultLimits)
			if !alike(decoded(t, got), decoded(t, []byte(want))) {
				t.Errorf("%s\ngot  %s\nwant %s", request, got, want)
			}
			if r, ok := decoded(t, []byte(request)).(map[string]any); ok {
				shown[fmt.Sprint(r["op"])] = true
			}
		}
	}
	for name := range ops {
		if !shown[name] {
			t.Errorf("docs/calc.md has no request of %s", name)
		}
	}
}

func decoded(tb testing.TB, raw []byte) (v any) {
	tb.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		tb.Fatalf("%s: %v", raw, err)
	}
	return v
}

// alike compares decoded JSON, numbers within 1e-9 of their size.
func alike(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, alike)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, alike)
	case float64:
		b, ok := b.(float64)
		return ok && math.Abs(a-b) <= 1e-9*math.Abs(b)
	}
	return a == b
}

// Every line gets its reply, in order.
func TestRun(t *testing.T) {
	lines := []string{
		`{"id":1,"op":"brier","p":[0.5],"y":[1]}`,
		``,
		strings.Repeat("x", 70_000), // more than a buffer
		strings.Repeat(" ", small.Line-2) + `{}`,
		strings.Repeat(" ", small.Line-1) + `{}`,
		"{\"id\":2,\"op\":\"brier\",\"p\":[0.5],\"y\":[1]}\r",
		`{"id":3,"op":"brier","p":[0],"y":[1]}`,
	}
	codes := []string{"", "bad_json", "too_large", "bad_request", "too_large", "", ""}
	for _, end := range []string{"", "\n"} {
		var out bytes.Buffer
		if err := Run(strings.NewReader(strings.Join(lines, "\n")+end), &out, small); err != nil {
			t.Fatal(err)
		}
		replies := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(replies) != len(lines) {
			t.Fatalf("%d replies to %d lines:\n%s", len(replies), len(lines), &out)
		}
		for i, want := range codes {
			if got := codeOf(t, replies[i]); got != want {
				t.Errorf("line %d: %s, want %q", i+1, replies[i], want)
			}
		}
		if want := `{"id":3,"ok":true,"brier":1,"n":1}`; replies[6] != want {
			t.Errorf("got %s, want %s", replies[6], want)
		}
	}
	var none bytes.Buffer
	if err := Run(strings.NewReader(""), &none, small); err != nil || none.Len() > 0 {
		t.Errorf("of no line: %q, %v", &none, err)
	}
}

func codeOf(tb rapid.TB, reply string) string {
	tb.Helper()
	var r struct {
		OK    *bool `json:"ok"`
		Error *struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(reply), &r); err != nil || r.OK == nil || *r.OK != (r.Error == nil) {
		tb.Fatalf("reply %s: %v", reply, err)
	}
	if r.Error == nil {
		return ""
	}
	return r.Error.Code
}

// A reply comes before the next line is there.
func TestRunAnswersAtOnce(t *testing.T) {
	in, send := io.Pipe()
	read, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Run(in, out, DefaultLimits) }()
	replies := bufio.NewReader(read)
	for i := range 3 {
		fmt.Fprintf(send, "{\"id\":%d,\"op\":\"brier\",\"p\":[0.5],\"y\":[1]}\n{\"half\":", i)
		want := fmt.Sprintf("{\"id\":%d,\"ok\":true,\"brier\":0.25,\"n\":1}\n", i)
		if got, err := replies.ReadString('\n'); err != nil || got != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
		fmt.Fprintln(send, "1}")
		if got, err := replies.ReadString('\n'); err != nil || codeOf(t, got) != "bad_request" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	send.Close()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestServe(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "calc.sock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, ln, DefaultLimits) }()
	dial := func() net.Conn {
		conn, err := net.Dial("unix", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	broken := dial()
	fmt.Fprint(broken, `{"op":`)
	broken.Close() // in the middle of a line
	// Many talk at a time, one of them silent.
	silent := dial()
	defer silent.Close()
	for range 3 {
		conns := make([]net.Conn, 8)
		for i := range conns {
			conns[i] = dial()
			fmt.Fprintf(conns[i], "{\"id\":%d,\"op\":\"bootstrap\",\"data\":[1,2,3]}\n", i)
		}
		for i, conn := range slices.Backward(conns) {
			got, err := bufio.NewReader(conn).ReadString('\n')
			if want := fmt.Sprintf(`{"id":%d,"ok":true,"estimate":2,`, i); err != nil || !strings.HasPrefix(got, want) {
				t.Errorf("got %q, %v", got, err)
			}
			conn.Close()
		}
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
	if _, err := net.Dial("unix", ln.Addr().String()); err == nil {
		t.Error("the socket still answers")
	}
	if n, err := silent.Read(make([]byte, 1)); err == nil {
		t.Errorf("the silent connection is open: %d bytes", n)
	}
}

// failing is a listener whose first connections cannot be taken.
type failing struct {
	net.Listener
	left int
}

func (l *failing) Accept() (net.Conn, error) {
	if l.left > 0 {
		l.left--
		return nil, &net.OpError{Op: "accept", Net: "unix", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// Too many open files end no service; a listener that somebody else closed does.
func TestServeOutlastsErrors(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "calc.sock"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- Serve(t.Context(), &failing{ln, 2}, DefaultLimits) }()
	conn, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintln(conn, `{"op":"bootstrap","data":[1,2,3]}`)
	if got, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(got, `{"id":null,"ok":true,"estimate":2,`) {
		t.Errorf("got %q, %v", got, err)
	}
	ln.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("it ended with %v", err)
	}
}

// Whatever comes in, one JSON object goes out, with the request's id if it can be
// read, and an error is one of those that are documented.
func FuzzAnswer(f *testing.F) {
	page, err := os.ReadFile("../../docs/calc.md")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if request, ok := strings.CutPrefix(line, "> "); ok {
			f.Add([]byte(strings.TrimSuffix(request, "\n")))
		}
	}
	f.Add([]byte(`{"op":"tost","kind":"welch_t","m1":1e308,"m2":-1e308,"sd1":1e200,"sd2":0,"n1":2,"n2":2e5,"low":-1e308,"high":1e308}`))
	f.Add([]byte(`{"op":"mcnemar","table":[[1,2],null]}`))
	f.Add([]byte(`{"op":"cluster_bootstrap","clusters":{"w":null,"v":{"a":null,"b":[1e308,1e308]}},"arms":["a","b"],"B":1}`))
	limits := Limits{Cost: 1e5, Line: 1 << 16}
	f.Fuzz(func(t *testing.T, line []byte) {
		got := Answer(line, limits)
		if bytes.ContainsAny(got, "\n") && !bytes.ContainsAny(line, "\n") {
			t.Fatalf("more than a line: %q", got)
		}
		var reply struct {
			ID jsontext.Value `json:"id"`
		}
		if err := json.Unmarshal(got, &reply); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		code := Code(codeOf(t, string(got)))
		if !slices.Contains([]Code{"", BadJSON, BadRequest, UnsupportedOp, TooLarge, ZeroProbability, CyclicGraph}, code) {
			t.Fatalf("code %s", code)
		}
		var request struct {
			ID jsontext.Value `json:"id"`
		}
		if err := json.Unmarshal(line, &request); err == nil && len(line) <= limits.Line && request.ID != nil {
			if code == BadJSON || string(reply.ID) != string(request.ID) {
				t.Fatalf("reply %s to id %s", got, request.ID)
			}
		}
	})
}

// Requests with the right members and extreme values: no reply but one of the
// documented kinds, and none that JSON could not hold.
func TestExtremes(t *testing.T) {
	shapes := map[string][]string{ // a name in capitals is a list
		"proportion_ci": {"k", "n", "alpha"}, "binomial_test": {"k", "n", "p"}, "brier": {"P", "Y"}, "log_loss": {"P", "Y", "clamp"},
		"auroc": {"P", "Y"}, "ece": {"P", "Y", "bins"}, "bootstrap": {"DATA", "n_boot", "confidence", "seed"},
		"tost":  {"m", "mu", "sd", "n", "m1", "m2", "sd1", "sd2", "n1", "n2", "low", "high", "X", "Y", "eps", "successes", "alpha", "P_ALT"},
		"power": {"discordance", "effect", "half_width", "alpha", "power"},
	}
	words := map[string][]string{
		"method": {"wilson", "clopper_pearson", "agresti_coull"}, "norm": {"l1", "l2", "max"}, "design": {"paired_binary", "precision"},
		"kind": {"one_sample_t", "welch_t", "paired_t", "z_proportion", "binomial_tost_power"},
	}
	numbers := []float64{
		0, 1, 2, 3, 7, 400, 199_999, 200_000, 0.5, 0.05, 0.95, 1e-6, 1 - 1e-6, 5e-324, 1e-300, 1e-17, math.Nextafter(1, 0), 1e17, 1e155, 1e308,
		-1, -0.5, -5e-324, -1e155, -1e308,
	}
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.SampledFrom(numbers)
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(shapes))).Draw(t, "op")
		request := map[string]any{"op": name}
		for word, values := range words {
			request[word] = rapid.SampledFrom(values).Draw(t, word)
		}
		size := rapid.IntRange(0, 4).Draw(t, "size")
		for _, field := range shapes[name] {
			if lower := strings.ToLower(field); lower == field {
				request[field] = number.Draw(t, field)
			} else {
				request[lower] = rapid.SliceOfN(number, size, size).Draw(t, field)
			}
		}
		line, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		got := string(Answer(line, Limits{Cost: 1e6, Line: 1 << 16}))
		code := codeOf(t, got)
		if code != "" && code != "bad_request" && code != "too_large" || strings.Contains(got, "finite number") {
			t.Fatalf("%s\n%s", line, got)
		}
	})
}
