// Package table prints resources on the server's side from a list of columns: what kubectl get
// shows.
package table

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Column is a column of a table of T.
type Column[T any] struct {
	metav1.TableColumnDefinition
	// Cell returns the value: a string, an int64, a bool, or a metav1.Time, whose age is shown.
	Cell func(*T) any
}

// Name returns the first column of every resource.
func Name[T any, P interface {
	*T
	metav1.Object
}]() Column[T] {
	return Column[T]{
		metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: "The name, unique in the namespace."},
		func(object *T) any { return P(object).GetName() },
	}
}

// Age returns the column of an object's age.
func Age[T any, P interface {
	*T
	metav1.Object
}]() Column[T] {
	return Column[T]{
		metav1.TableColumnDefinition{Name: "Age", Type: "date", Description: "How long ago it was created."},
		func(object *T) any { return P(object).GetCreationTimestamp() },
	}
}

// Convertor makes tables of T and of lists of T. It is a rest.TableConvertor of k8s.io/apiserver,
// and safe for concurrent use.
type Convertor[T any] struct {
	columns []Column[T]
	now     func() time.Time
}

// New returns a Convertor; ages are relative to now.
func New[T any](columns []Column[T], now func() time.Time) *Convertor[T] {
	return &Convertor[T]{columns: columns, now: now}
}

// ConvertToTable returns the table of an object or of a list, with the object itself in each row:
// the library takes from it what the client asked for. Options can omit the headers: a watch sends
// them once. Any other object is not acceptable (406).
func (c *Convertor[T]) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	made := &metav1.Table{}
	if given, ok := options.(*metav1.TableOptions); !ok || !given.NoHeaders {
		made.ColumnDefinitions = make([]metav1.TableColumnDefinition, len(c.columns))
		for i := range c.columns {
			made.ColumnDefinitions[i] = c.columns[i].TableColumnDefinition
		}
	}
	now := c.now()
	add := func(one runtime.Object) error {
		typed, ok := any(one).(*T)
		if !ok {
			return unprintable[T](one)
		}
		made.Rows = append(made.Rows, metav1.TableRow{Cells: c.cells(typed, now), Object: runtime.RawExtension{Object: one}})
		return nil
	}
	if !meta.IsListType(object) {
		if err := add(object); err != nil {
			return nil, err
		}
		if about, err := meta.CommonAccessor(object); err == nil {
			made.ResourceVersion = about.GetResourceVersion()
		}
		return made, nil
	}
	made.Rows = make([]metav1.TableRow, 0, meta.LenList(object))
	if err := meta.EachListItem(object, add); err != nil {
		return nil, err
	}
	if about, err := meta.ListAccessor(object); err == nil {
		made.ResourceVersion, made.Continue, made.RemainingItemCount = about.GetResourceVersion(), about.GetContinue(),
			about.GetRemainingItemCount()
	}
	return made, nil
}

// cells returns the row of an object. Times are shown as ages.
func (c *Convertor[T]) cells(object *T, now time.Time) []any {
	cells := make([]any, len(c.columns))
	for i := range c.columns {
		cell := c.columns[i].Cell(object)
		if at, isTime := cell.(metav1.Time); isTime {
			cell = age(at, now)
		}
		cells[i] = cell
	}
	return cells
}

// age returns an age in kubectl's format.
func age(at metav1.Time, now time.Time) string {
	if at.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(at.Time))
}

// statusNotAcceptable is HTTP's; the package net/http would bring the network with it.
const statusNotAcceptable = 406

func unprintable[T any](object runtime.Object) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: statusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: fmt.Sprintf("%T can't be shown as a table, only %T and lists of it can", object, new(T)),
	}}
}
