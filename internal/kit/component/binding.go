package component

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Binding is what a kind offers to the applications that are bound to one of its objects.
type Binding struct {
	// Variables returns the environment variables of an application, by the name of the Secret with
	// which it connects: values, and keys of that Secret.
	Variables func(secret string) []Output
	// Secret returns the name of the Secret with which an application connects that is not bound to a
	// user of its own, by the name of the object.
	Secret func(name string) string
	// Authority returns the ConfigMap, and the key in it, with the authorities that sign the
	// certificates of the object's servers.
	Authority func(name string) (configMap, key string)
	// AuthorityVariables are the names of the variables with the path of the file with them.
	AuthorityVariables []string
	// Condition is the type of the condition that is True once an application may start.
	Condition string
	// Account returns as whom an application connects: a user of the object, or "" for the user that
	// every object has.
	Account func(object Object, user string) Account
	// HasUsers reports whether objects can have further users.
	HasUsers bool
}

// Account is as whom an application connects.
type Account struct {
	// Secret is the name of the Secret with what is needed for that.
	Secret string
	// Revision is a text that changes with the credentials, and reveals nothing of them; "" while it
	// is not known.
	Revision string
	// Problem says why nobody can connect as this user, as the end of a sentence; "" if one can.
	Problem string
	// Starting says why an application that does not use this account yet had better wait, as the end
	// of a sentence: the account is about to change. "" if it need not. Those that use it go on.
	Starting string
}

// Names returns the names of all variables of an application, each with a prefix.
func (b Binding) Names(prefix string) []string {
	var names []string
	for _, one := range b.Variables("") {
		names = append(names, prefix+one.Name)
	}
	for _, one := range b.AuthorityVariables {
		names = append(names, prefix+one)
	}
	return names
}

// Bindable is a kind to whose objects applications can be bound, and that is on.
type Bindable struct {
	Binding
	Kind schema.GroupVersionKind
	// New returns an empty object.
	New func() Object
}

// Unready returns why an application that is bound to an object, as one of its users or as "", may
// not start yet, as the end of a sentence; "" if it may. object is nil if there is none.
func (b Bindable) Unready(object Object, user string) string {
	if why := gone(object); why != "" {
		return why
	}
	found := meta.FindStatusCondition(ConditionsOf(object), b.Condition)
	switch {
	case found == nil:
		return fmt.Sprintf("whose condition %s is not reported yet", b.Condition)
	case found.Status != metav1.ConditionTrue:
		return fmt.Sprintf("whose condition %s is %s (%s)", b.Condition, found.Status, found.Reason)
	}
	account := b.Account(object, user)
	if account.Problem == "" && account.Revision == "" {
		return "whose credentials are not known yet"
	}
	return account.Problem
}

// Lost returns why pods that are bound to an object, as one of its users or as "", and that start
// again will not find what they need, as the end of a sentence; "" if they will, also while the
// object is Unready.
func (b Bindable) Lost(object Object, user string) string {
	if why := gone(object); why != "" {
		return why
	}
	return b.Account(object, user).Problem
}

// gone returns why there is no object, or not for long; "" if there is one.
func gone(object Object) string {
	switch {
	case object == nil:
		return "which does not exist"
	case object.GetDeletionTimestamp() != nil:
		return "which is being deleted"
	}
	return ""
}

// Starting returns why an application that is not bound to an object yet is to wait, as the end of
// a sentence; "" if it need not. One that is bound has to wait only while the object is Unready.
func (b Bindable) Starting(object Object, user string) string {
	if problem := b.Unready(object, user); problem != "" {
		return problem
	}
	return b.Account(object, user).Starting
}

// Bindables are the kinds to which applications can be bound.
type Bindables []Bindable

// Get returns the kind of a name, such as PostgreSQL.
func (b Bindables) Get(kind string) (Bindable, bool) {
	at := slices.IndexFunc(b, func(one Bindable) bool { return one.Kind.Kind == kind })
	if at < 0 {
		return Bindable{}, false
	}
	return b[at], true
}

// Names returns the names of the kinds, sorted.
func (b Bindables) Names() []string {
	names := []string{}
	for _, one := range b {
		names = append(names, one.Kind.Kind)
	}
	slices.Sort(names)
	return names
}
