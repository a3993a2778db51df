package ui

import (
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"
)

// door lets in who has the key, under the names of the address that is listened on.
type door struct {
	addr, key string
	hosts     func(host string) bool
}

func newDoor(addr, key string) (*door, error) {
	hosts, err := hostsOf(addr)
	return &door{addr, key, hosts}, err
}

// hostsOf says under which hosts the address may be asked for: its own, localhost for
// a loopback address and, where all addresses are listened on, any address; a name
// that a foreign site owns is none of them.
func hostsOf(addr string) (func(host string) bool, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ip := net.ParseIP(host)
	return func(asked string) bool {
		name, at, err := net.SplitHostPort(asked)
		switch {
		case err != nil || at != port:
			return false
		case name == host:
			return true
		case strings.EqualFold(name, "localhost"):
			return ip != nil && ip.IsLoopback()
		}
		return ip != nil && ip.IsUnspecified() && net.ParseIP(name) != nil
	}, nil
}

const (
	policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	// sandboxed is for reports, which are files of another program: they may use
	// styles of their own and nothing else.
	sandboxed = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// admits sets what every answer says of itself, and answers requests that go no
// further: for another host, by another method, without the key, or with the key in
// the address.
func (d *door) admits(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	switch {
	case !d.hosts(r.Host):
		http.Error(w, "this address is served under its own name alone", http.StatusMisdirectedRequest)
	case !slices.Contains(methods, r.Method):
		allowed := strings.Join(methods, ", ")
		h.Set("Allow", allowed)
		http.Error(w, "these pages answer "+allowed+" alone", http.StatusMethodNotAllowed)
	case d.opens(w, r):
	case !d.isOpen(r):
		http.Error(w, "open the address that the command printed: it has the key", http.StatusForbidden)
	default:
		return true
	}
	return false
}

// keyParam is the query parameter and, with the port, the cookie of the key: the
// ports of a host share their cookies.
const keyParam = "key"

func (d *door) cookie() string {
	_, port, _ := net.SplitHostPort(d.addr)
	return "assay-ui-" + port
}

func (d *door) isKey(text string) bool {
	return subtle.ConstantTimeCompare([]byte(text), []byte(d.key)) == 1
}

// opens exchanges the key in the address for a cookie, so that the address does not
// keep it.
func (d *door) opens(w http.ResponseWriter, r *http.Request) bool {
	if d.key == "" || r.URL.Path != "/" || !d.isKey(r.URL.Query().Get(keyParam)) {
		return false
	}
	http.SetCookie(w, &http.Cookie{Name: d.cookie(), Value: d.key, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/", http.StatusSeeOther)
	return true
}

func (d *door) isOpen(r *http.Request) bool {
	if d.key == "" {
		return true
	}
	c, err := r.Cookie(d.cookie())
	return err == nil && d.isKey(c.Value)
}
