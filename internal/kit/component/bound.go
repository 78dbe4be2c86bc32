package component

import (
	"slices"
	"strings"
)

// MaxBound is the length of the longest annotation with bindings that counts, in bytes. A longer
// one is none of ours: [ParseBound] finds nothing in it, and a WebApp's is put back.
const MaxBound = 16 * 8 * 63

// Bound is what the annotation api.AnnotationBindings of a pod template says of one binding.
type Bound struct {
	// Key identifies the object, and the user of it: see [BoundKey].
	Key string
	// Revision is that of the credentials: see [Account].
	Revision string
	// Secret is the name of the Secret with them; "" for that which every object of the kind has.
	Secret string
}

// BoundKey identifies an object, and a user of it, or "": "PostgreSQL/db", "PostgreSQL/db/orders".
func BoundKey(kind, name, user string) string {
	if user == "" {
		return kind + "/" + name
	}
	return kind + "/" + name + "/" + user
}

// FormatBound returns the text of the annotation; "" without bindings. Their order has no meaning.
func FormatBound(all []Bound) string {
	texts := make([]string, 0, len(all))
	for _, one := range all {
		text := one.Key + "=" + one.Revision
		if one.Secret != "" {
			text += ":" + one.Secret
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), ",")
}

// ParseBound reads that text. It leaves out what it can't read.
func ParseBound(text string) []Bound {
	if len(text) > MaxBound {
		return nil
	}
	var all []Bound
	for one := range strings.SplitSeq(text, ",") {
		key, rest, isBound := strings.Cut(one, "=")
		if !isBound {
			continue
		}
		revision, secret, _ := strings.Cut(rest, ":")
		all = append(all, Bound{Key: key, Revision: revision, Secret: secret})
	}
	return all
}
