package bounded

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/test/fuzz"
)

type embedded struct {
	Size resource.Quantity `json:"size"`
}

type spec struct {
	embedded  `json:",inline"`
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	Env       []corev1.EnvVar              `json:"env,omitempty"`
	Limits    []resource.Quantity          `json:"limits,omitempty"`
	Many      []corev1.Container           `json:"many,omitempty"`
	Timeout   metav1.Duration              `json:"timeout"`
	Plain     resource.Quantity
}

func TestCheck(t *testing.T) {
	const bomb = `"1e-999999999"`
	for name, test := range map[string]struct{ text, want string }{
		"nothing hostile": {`{"resources":{"limits":{"cpu":"500m","memory":"1e9"}},"size":"5E","limits":[1,"1e3"],"timeout":"5m"}`, ""},
		"deep in a map":   {`{"resources":{"limits":{"cpu":` + bomb + `}}}`, `resources.limits[cpu]: Invalid value: "1e-999999999"`},
		"embedded":        {`{"size":` + bomb + `}`, "size: Invalid value"},
		"in a list":       {`{"limits":["1",` + bomb + `]}`, "limits[1]: Invalid value"},
		"as a number":     {`{"limits":[1e-999999999]}`, "limits[0]: Invalid value"},
		"upper case":      {`{"RESOURCES":{"Limits":{"cpu":` + bomb + `}}}`, "RESOURCES.Limits[cpu]: Invalid value"},
		"another letter":  {`{"\u017fize":` + bomb + `}`, "Invalid value"},
		"nulls":           {`{"env":[` + strings.Repeat("null,", 5000) + `null]}`, "Too many"},
		"numbers":         {`{"env":[` + strings.Repeat("0,", 9000) + `0]}`, "Too many"},
		"lists of texts":  {`{"other":[` + strings.Repeat("0,", 9000) + `0]}`, ""},
		"escaped":         {`{"size":"1\u0065-999999999"}`, "size: Invalid value"},
		"with spaces":     {`{"size":" 1E99999 "}`, "size: Invalid value"},
		"no tag":          {`{"Plain":` + bomb + `}`, "Plain: Invalid value"},
		"overflowing":     {`{"size":"1e99999999999999999999"}`, "size: Invalid value"},
		"many digits":     {`{"size":"` + strings.Repeat("9", 65) + `"}`, "at most 64 characters"},
		"a text is none":  {`{"env":[{"name":"A","value":` + bomb + `}]}`, ""},
		"unknown fields":  {`{"other":{"cpu":` + bomb + `}}`, ""},
		"not JSON":        {`{"size":`, "unexpected EOF"},
		"two values":      {`{}{}`, "one JSON value"},
		"many objects":    {`{"env":[` + strings.Repeat("{},", 5000) + `{}]}`, "Too many"},
		"small structs":   {`{"env":[` + strings.Repeat(`{"name":"name-01"},`, 2000) + `{}]}`, ""},
		"large structs":   {`{"many":[` + strings.Repeat(`{"name":"name-01"},`, 2000) + `{}]}`, "Too many"},
		"many levels":     {strings.Repeat("[", 101) + strings.Repeat("]", 101), "may not have more than 100 levels"},
		"too long":        {`{"a":"` + strings.Repeat("x", 1<<16) + `"}`, "Too long: may not be more than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check([]byte(test.text), 1<<16, reflect.TypeFor[*spec]())
			if test.want == "" && err != nil || !strings.Contains(fmt.Sprint(err), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestQuantity: what is refused is nothing that anybody needs.
func TestQuantity(t *testing.T) {
	for _, text := range []string{"0", "1", "-1", "500m", "64Mi", "5E", "5e3", "1E30", "1e-30", "9223372036854775807", "0.000000001", "x", "1e", "1ee5"} {
		if problem := QuantityProblem(text); problem != "" {
			t.Errorf("%s: %s", text, problem)
		}
	}
	for _, text := range []string{"1e31", "1e-31", "1E+100", "1e-999999999", "1e0000000000000000000000000000099999"} {
		if QuantityProblem(text) == "" {
			t.Errorf("%s is accepted", text)
		}
	}
}

// FuzzCheck: what is accepted can be parsed at a price that is proportional to its length.
func FuzzCheck(f *testing.F) {
	f.Add(`{"resources":{"limits":{"cpu":"1e-999999999"}}}`)
	fuzz.AddBombs(f, `{"env":[{},{},{}],"size":1e5,"resources":{"limits":{"cpu":"1"}}}`)
	f.Add(strings.Repeat("[", 200))
	f.Fuzz(func(t *testing.T, text string) {
		defer fuzz.Budget(t, text)()
		if Check([]byte(text), 1<<16, reflect.TypeFor[*spec]()) != nil {
			return
		}
		var parsed spec
		_ = json.Unmarshal([]byte(text), &parsed)
		_, _ = json.Marshal(parsed)
	})
}
