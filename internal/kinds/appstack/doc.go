// Package appstack has every decision about an AppStack: which component is created, changed or
// deleted now, which one waits, and what the status says of it. It is pure, and knows the kinds of
// the components only through component.Kinds.
package appstack
