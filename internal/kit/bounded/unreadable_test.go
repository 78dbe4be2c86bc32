package bounded

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// texts has a field of each type that is written as a text, on its own and inside of others.
type texts struct {
	Amount  resource.Quantity            `json:"amount"`
	Amounts map[string]resource.Quantity `json:"amounts"`
	Wait    *metav1.Duration             `json:"wait"`
	At      *metav1.Time                 `json:"at"`
	Name    string                       `json:"name"`
	Inner   []texts                      `json:"inner"`
}

func TestUnreadable(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"readable texts":       {`{"amount":"64Mi","amounts":{"cpu":"1"},"wait":"1h30m","at":"2026-01-31T12:00:00Z","name":"64MB"}`, nil},
		"values of no text":    {`{"amount":7,"amounts":[],"wait":5,"at":false,"name":{},"inner":{}}`, nil},
		"no JSON":              {`{`, nil},
		"a unit in upper case": {`{"amount":"64MB"}`, []string{`.amount: Invalid value: "64MB": use for example 64Mi`}},
		"a unit with a space":  {`{"amount":"1.5 GiB"}`, []string{`.amount: Invalid value: "1.5 GiB": use for example 1.5Gi`}},
		"a unit in words":      {`{"amounts":{"cpu":"2 cores"}}`, []string{`.amounts.cpu: Invalid value: "2 cores": use for example 2`}},
		// A guess without the unit would take hours to parse.
		"a costly number with a unit": {`{"amount":"1e-999999999 cores","amounts":{"cpu":"1e-999999999cpu"}}`, []string{
			`.amount: Invalid value: "1e-999999999 cores": use for example 500m or 64Mi`,
			`.amounts.cpu: Invalid value: "1e-999999999cpu": use for example 500m or 64Mi`}},
		"no number":           {`{"amount":"half"}`, []string{`.amount: Invalid value: "half": use for example 500m or 64Mi`}},
		"a duration in words": {`{"wait":"5 minutes"}`, []string{`.wait: Invalid value: "5 minutes": use for example 30s, 5m or 1h30m`}},
		"a day":               {`{"at":"yesterday"}`, []string{`.at: Invalid value: "yesterday": use for example 2026-01-31T12:00:00Z`}},
		"several, in order": {`{"inner":[{},{"wait":"x","at":"y"}],"amount":"z"}`, []string{
			`.amount: Invalid value: "z": use for example 500m or 64Mi`, `.inner[1].at: Invalid value: "y": use for example 2026-01-31T12:00:00Z`,
			`.inner[1].wait: Invalid value: "x": use for example 30s, 5m or 1h30m`}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, problem := range Unreadable([]byte(test.text), reflect.TypeFor[*texts]()) {
				got = append(got, problem.Error())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestUnreadableIsBounded: an object may have a hundred thousand such texts, at any depth.
func TestUnreadableIsBounded(t *testing.T) {
	many := `{"inner":[` + strings.Repeat(`{"wait":"x","inner":[{"at":"y"},{"at":"y"}]},`, 1000) + `{}]}`
	if found := Unreadable([]byte(many), reflect.TypeFor[*texts]()); len(found) != maxUnreadable {
		t.Errorf("found %d", len(found))
	}
}
