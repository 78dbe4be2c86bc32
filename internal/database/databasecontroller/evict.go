package databasecontroller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
)

// evictionLimit is how long an eviction may take.
const evictionLimit = 10 * time.Second

// refusedAgain is after how long a refused eviction is tried again.
const refusedAgain = 10 * time.Second

// Evict evicts the pod that is to be replaced, if one is. A failure is no error: decided then says
// so, and it is tried again. Everything else goes on meanwhile, because some failures last, such as
// that of a pod with two budgets.
func Evict(ctx context.Context, writer client.Client, namespace string, decided *database.Decision) error {
	if decided.Evict == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, evictionLimit)
	defer cancel()
	name := metav1.ObjectMeta{Namespace: namespace, Name: decided.Evict.Name}
	err := writer.SubResource("eviction").Create(limited, &corev1.Pod{ObjectMeta: name}, &policyv1.Eviction{
		ObjectMeta: name, DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &decided.Evict.UID}},
	})
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("evicting pod %s/%s: %w", namespace, decided.Evict.Name, err)
	}
	decided.Refused, decided.RequeueAfter = errclass.Sentence(err), refusedAgain
	return nil
}
