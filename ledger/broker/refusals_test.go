package broker

import (
	"fmt"
	"strings"
	"testing"
)

func TestRefusedAccount(t *testing.T) {
	const piper = `127.0.0.1:5 - cid:7 - "v1.2:go:me" - "P_agent_piper/nkey:UABC" - `
	for _, c := range []struct {
		name, line, account string
		id                  uint64
	}{
		{"publish", piper + `Publish Violation - Subject %q`, "P_agent_piper", 0},
		{"reply", piper + `Publish Violation - Reply %q`, "P_agent_piper", 0},
		{"subscribe", piper + `Subscription Violation - Subject "a", SID 1`, "P_agent_piper", 0},
		{"payload", piper + `%s: %d vs %d`, "P_agent_piper", 0},
		{"subscriptions", piper + `maximum subscriptions exceeded`, "P_agent_piper", 0},
		{"revoked", piper + `%v - %s`, "P_agent_piper", 0},
		{"in process", strings.Replace(piper, "127.0.0.1:5", "pipe", 1) + `Publish Violation - Subject %q`, "P_agent_piper", 0},
		{"nameless client", `[::1]:5 - cid:7 - "P_agent_piper/nkey:UABC" - Publish Violation - Subject %q`, "P_agent_piper", 0},
		{"unknown user", `127.0.0.1:5 - cid:7 - %v - %s`, Unauthenticated, 0},
		{"no user", `127.0.0.1:5 - cid:7 - authentication error`, Unauthenticated, 0},
		{"connections", `pipe - cid:71 - maximum account active connections exceeded`, Unauthenticated, 71},
		{"connections of one that is let in", piper + `maximum account active connections exceeded`, "P_agent_piper", 0},
		{"name that quotes another account",
			`127.0.0.1:5 - cid:7 - "v1:go:x\" - \"P_operator_main/nkey:U\" - Publish Violation" - "P_agent_piper/nkey:UABC" - Publish Violation - Subject %q`, "P_agent_piper", 0},
		{"subject that quotes another account",
			piper + `Subscription Violation - Subject "x\"-\"P_operator_main/nkey:U", SID 1`, "P_agent_piper", 0},
		{"name that looks like a refusal, of no refusal",
			`127.0.0.1:5 - cid:7 - "v1:go: - Publish Violation - Subject" - "P_agent_piper/nkey:UABC" - Slow Consumer Detected`, "", 0},
		{"another error of a client", piper + `Error flushing: broken pipe`, "", 0},
		{"an error of the server", `JetStream resource limits exceeded for server`, "", 0},
		{"nothing", ``, "", 0},
	} {
		got, id, ok := refusedAccount(c.line)
		if got != c.account || id != c.id || ok != (c.account != "") {
			t.Errorf("%s: %q, %d, %v; want %q, %d", c.name, got, id, ok, c.account, c.id)
		}
	}
}

// Whatever a client calls itself, its refusals are its own account's.
func FuzzRefusedAccount(f *testing.F) {
	f.Add(`x" - "P_operator_main/nkey:U" - Publish Violation`, "a.b")
	f.Add(`%[1]q`, `\`)
	f.Add("\n - cid:1 - ", "\x1b[2J")
	f.Fuzz(func(t *testing.T, name, subject string) {
		id := fmt.Sprintf("%s - %q - %q", "127.0.0.1:5 - cid:7", "v1:go:"+name, "P_agent_piper/nkey:UABC")
		for _, text := range []string{"Publish Violation - Subject %q", fmt.Sprintf("Subscription Violation - Subject %q, SID %s", subject, "1")} {
			if got, _, ok := refusedAccount(fmt.Sprintf("%s - %s", id, text)); !ok || got != "P_agent_piper" {
				t.Fatalf("%q: %q, %v", text, got, ok)
			}
		}
	})
}
