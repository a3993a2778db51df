package classes

import (
	"fmt"
	"math/big"
	"slices"
)

// Size counts the DAGs of the class whose essential graph p is: the product over the
// components of its undirected edges. It is 0 where one of them is not chordal.
func (p *PDAG) Size() *big.Int {
	c := counter{p, map[string]*big.Int{}}
	total := big.NewInt(1)
	for _, component := range p.components() {
		total.Mul(total, c.orientations(component))
	}
	return total
}

// SizeCost is about what Essential and Size cost, in steps.
func (p *PDAG) SizeCost() float64 {
	n, edges := float64(p.n), 0.0
	for _, m := range p.marks {
		if m != none {
			edges++
		}
	}
	return (n + edges) * n * n
}

// components are the connected parts of the undirected edges, each of two nodes or
// more.
func (p *PDAG) components() [][]int {
	c := counter{p: p}
	nodes := make([]int, p.n)
	for v := range nodes {
		nodes[v] = v
	}
	return slices.DeleteFunc(c.connected(nodes), func(part []int) bool { return len(part) == 1 })
}

// counter counts the acyclic orientations without v-structure of connected parts of
// the undirected edges.
type counter struct {
	p    *PDAG
	memo map[string]*big.Int
}

// orientations takes time polynomial in the size of the component (Clique-Picking of
// Wienöbst, Bannach and Liśkiewicz, 2021): an orientation starts with a maximal
// clique, of those it could start with the one nearest to the root of a clique tree;
// what that leaves open is smaller components.
func (c *counter) orientations(component []int) *big.Int {
	if len(component) == 1 {
		return big.NewInt(1)
	}
	key := fmt.Sprint(component)
	if known, ok := c.memo[key]; ok {
		return known
	}
	total := new(big.Int)
	c.memo[key] = total
	cliques, ok := c.cliqueTree(component)
	if !ok {
		return total
	}
	for i, k := range cliques {
		ways := permutations(len(k.nodes), separators(cliques, i))
		for _, left := range c.after(component, k.nodes) {
			ways.Mul(ways, c.orientations(left))
		}
		total.Add(total, ways)
	}
	return total
}

func (c *counter) joined(a, b int) bool { return c.p.at(a, b) == undirected }

// after are the components that remain undirected once all edges point away from the
// clique: by lexicographic search from it, nodes that nothing before tells apart.
func (c *counter) after(component, first []int) [][]int {
	rest := slices.DeleteFunc(slices.Clone(component), func(v int) bool { return slices.Contains(first, v) })
	queue := [][]int{slices.Clone(first), rest}
	placed := map[int]bool{} // in the clique or in a part
	for _, v := range first {
		placed[v] = true
	}
	var parts [][]int
	for len(queue) > 0 {
		front := queue[0]
		if len(front) == 0 {
			queue = queue[1:]
			continue
		}
		v := front[0]
		if !placed[v] {
			for _, u := range front {
				placed[u] = true
			}
			parts = append(parts, c.connected(front)...)
		}
		queue[0] = front[1:]
		var refined [][]int
		for _, set := range queue {
			var near, far []int
			for _, u := range set {
				if c.joined(u, v) {
					near = append(near, u)
				} else {
					far = append(far, u)
				}
			}
			for _, part := range [][]int{near, far} {
				if len(part) > 0 {
					refined = append(refined, part)
				}
			}
		}
		queue = refined
	}
	return parts
}

// connected are the connected parts of the nodes.
func (c *counter) connected(nodes []int) [][]int {
	var parts [][]int
	left := slices.Clone(nodes)
	for len(left) > 0 {
		part := []int{left[0]}
		left = left[1:]
		for i := 0; i < len(part); i++ {
			left = slices.DeleteFunc(left, func(u int) bool {
				near := c.joined(part[i], u)
				if near {
					part = append(part, u)
				}
				return near
			})
		}
		slices.Sort(part)
		parts = append(parts, part)
	}
	return parts
}

// clique is a maximal clique in a rooted clique tree.
type clique struct {
	nodes     []int
	parent    int // -1 at the root
	separator []int
}

// cliqueTree finds the maximal cliques of a connected component by maximum
// cardinality search, parents first; ok is false if it is not chordal.
func (c *counter) cliqueTree(component []int) (cliques []clique, ok bool) {
	weight, home := map[int]int{}, map[int]int{} // home is the clique of a visited node
	last := -1                                   // how many visited neighbours the node before had
	for range component {
		v := -1
		for _, u := range component {
			if _, visited := home[u]; !visited && (v < 0 || weight[u] > weight[v]) {
				v = u
			}
		}
		var before []int // its visited neighbours
		for _, u := range component {
			if !c.joined(u, v) {
				continue
			}
			weight[u]++
			if _, visited := home[u]; visited {
				before = append(before, u)
			}
		}
		for i, a := range before {
			for _, b := range before[:i] {
				if !c.joined(a, b) {
					return nil, false
				}
			}
		}
		if len(before) <= last || len(cliques) == 0 {
			k := clique{parent: -1, separator: before, nodes: slices.Clone(before)}
			for _, u := range before { // the clique of the latest of them holds them all
				k.parent = max(k.parent, home[u])
			}
			cliques = append(cliques, k)
		}
		at := len(cliques) - 1
		cliques[at].nodes = append(cliques[at].nodes, v)
		home[v], last = at, len(before)
	}
	return cliques, true
}

// separators are the sizes of the separators on the way from the root to clique i
// that lie in it, rising: an order of the clique that starts with one of them belongs
// to a clique nearer to the root. Those that lie in one clique are nested.
func separators(cliques []clique, i int) []int {
	var sizes []int
	for at := i; cliques[at].parent >= 0; at = cliques[at].parent {
		inside := !slices.ContainsFunc(cliques[at].separator, func(v int) bool { return !slices.Contains(cliques[i].nodes, v) })
		if inside {
			sizes = append(sizes, len(cliques[at].separator))
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// permutations counts those of n things that start with none of the nested sets of
// the given sizes.
func permutations(n int, sizes []int) *big.Int {
	total := new(big.Int).MulRange(1, int64(n))
	for i, s := range sizes {
		first := permutations(s, sizes[:i])
		total.Sub(total, first.Mul(first, new(big.Int).MulRange(1, int64(n-s))))
	}
	return total
}
