// Package provision makes the persistent volumes of a testbed: one XFS image per
// volume, mounted by a loop device, so that a volume's size is really its size.
package provision

// Name is the provisioner that the storage class asks for.
const Name = "testbed.mainstay.dev/loop-xfs"
