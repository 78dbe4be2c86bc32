package database

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// AddEndpointSlice adds where the primary writes its address for the write Service. It is made
// empty, and goes with the database. While the database hibernates it is emptied again: another pod
// may get the address of the last primary, and clients would send it their passwords.
func (d *Database) AddEndpointSlice(to *plan.Plan, observed State) {
	name := contract.WriteServiceName(d.Name)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: d.Meta(name), AddressType: observed.addressType(d), Endpoints: []discoveryv1.Endpoint{},
	}
	slice.Labels[discoveryv1.LabelServiceName] = name
	slice.Labels[discoveryv1.LabelManagedBy] = contract.EndpointManager
	live := observed.endpointSlice(d)
	isLeft := live != nil && len(live.Endpoints) > 0 && d.Hibernated && observed.hasNoPods(d) && len(observed.Pods) == 0
	to.Children = append(to.Children, plan.Child{Object: slice, Uncached: true, CreateOnce: !isLeft, KeepOthers: isLeft})
}

// addressType returns the family of the addresses in the EndpointSlice, which can't be changed once
// it exists: that of the one that exists, or of the write Service, or of the cluster.
func (o State) addressType(d *Database) discoveryv1.AddressType {
	if slice := o.endpointSlice(d); slice != nil {
		return slice.AddressType
	}
	object, _ := o.Children.Get(d.Ref("Service", contract.WriteServiceName(d.Name)))
	if service, _ := object.(*corev1.Service); service != nil && len(service.Spec.IPFamilies) > 0 {
		return discoveryv1.AddressType(service.Spec.IPFamilies[0])
	}
	return cmp.Or(o.AddressType, discoveryv1.AddressTypeIPv4)
}

// endpointSlice returns the EndpointSlice of the write Service; nil if there is none.
func (o State) endpointSlice(d *Database) *discoveryv1.EndpointSlice {
	object, _ := o.Children.Get(d.Ref("EndpointSlice", contract.WriteServiceName(d.Name)))
	slice, _ := object.(*discoveryv1.EndpointSlice)
	return slice
}
