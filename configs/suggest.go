package configs

import "strings"

// nearest gives the candidate closest to a misspelt word, or "" when none is close: at most a third of its letters may
// differ.
func nearest(word string, candidates []string) string {
	best, least := "", 0
	for _, c := range candidates {
		d := editDistance(strings.ToLower(word), c)
		if d <= max(1, max(len(word), len(c))/3) && (best == "" || d < least) {
			best, least = c, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbours that turn a into b (optimal string
// alignment).
func editDistance(a, b string) int {
	s, t := []rune(a), []rune(b)
	if len(s) > 64 || len(t) > 64 { // no key is that long
		return max(len(s), len(t))
	}
	d := make([][]int, len(s)+1) // d[i][j] turns s[:i] into t[:j]
	for i := range d {
		d[i] = make([]int, len(t)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(s); i++ {
		for j := 1; j <= len(t); j++ {
			replace := d[i-1][j-1]
			if s[i-1] != t[j-1] {
				replace++
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, replace)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(s)][len(t)]
}

// didYouMean is the end of a message about an unknown word: the nearest valid one, or all of them.
func didYouMean(word string, candidates []string) string {
	if c := nearest(word, candidates); c != "" {
		return "did you mean " + c + "?"
	}
	return "want one of " + strings.Join(candidates, ", ")
}
