package logger

// cutBatch cuts a JSON array into the bytes of its elements, which alias raw.
// It looks at brackets, strings and commas only, for a fifth of what a parser
// costs; each element is checked on its own anyway. Where it says ok and every
// element is one valid JSON object, the array is valid too and splitBatch cuts
// it in the same way. In every other case splitBatch decides.
func cutBatch(raw []byte) (elements [][]byte, ok bool) {
	i := skipSpace(raw, 1)
	for len(elements) < maxItems && i < len(raw) && raw[i] == '{' {
		end := objectEnd(raw, i)
		if end == 0 {
			return nil, false
		}
		elements = append(elements, raw[i:end:end])
		i = skipSpace(raw, end)
		switch {
		case i == len(raw):
			return nil, false
		case raw[i] == ']':
			return elements, skipSpace(raw, i+1) == len(raw)
		case raw[i] != ',':
			return nil, false
		}
		i = skipSpace(raw, i+1)
	}
	return nil, false
}

func skipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\r' || raw[i] == '\t') {
		i++
	}
	return i
}

// objectEnd is the offset behind the bracket that closes the one at i; 0 if
// there is none.
func objectEnd(raw []byte, i int) int {
	depth := 0
	for ; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}
