package programs

// Share is a manifest that lets each container of a namespace request a little CPU. Containers
// without requests have two shares of a node together (cpu.shares of its besteffort group), and
// those of all others more than a thousand: while the machine is busy, they stand still for
// minutes.
const Share = `apiVersion: v1
kind: LimitRange
metadata: {name: share}
spec: {limits: [{type: Container, defaultRequest: {cpu: 10m}}]}
`
