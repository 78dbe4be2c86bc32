package render

import "context"

// Budget limits what the renderings of one request do together, however many objects the request
// is about, beside the limits of each object. Nil limits nothing. It is not safe for concurrent
// use.
type Budget struct {
	// work is what the meters may charge together. visits and read are what schemas may need for
	// checks.
	work, visits, read int
	isSpent            bool
}

// NewBudget returns a budget for as much as one object may do: one Render and one Schema.
func NewBudget() *Budget { return &Budget{work: 2 * maxWork, visits: maxVisits, read: maxRead} }

// IsSpent reports whether the budget has stopped a rendering or a check. What that has reported
// says nothing about the object, and there is no use in another one.
func (b *Budget) IsSpent() bool { return b != nil && b.isSpent }

// take charges costs that are within the limits of the object. It reports whether they are within
// the budget, too.
func (b *Budget) take(work, visits, read int) bool {
	if b == nil {
		return true
	}
	if b.isSpent || work > b.work || visits > b.visits || read > b.read {
		b.isSpent = true
		return false
	}
	b.work, b.visits, b.read = b.work-work, b.visits-visits, b.read-read
	return true
}

type budgetKey struct{}

// WithBudget returns a context in which all renderings share a new budget.
func WithBudget(ctx context.Context) context.Context {
	return context.WithValue(ctx, budgetKey{}, NewBudget())
}

// BudgetOf returns the budget of a context; nil if it has none.
func BudgetOf(ctx context.Context) *Budget {
	budget, _ := ctx.Value(budgetKey{}).(*Budget)
	return budget
}
