// Package cri is a container runtime for the kubelet that runs containers as plain processes, for
// tests where no other runtime is at hand. A pod has a network and a UTS namespace and an address of
// its own; a container has a mount namespace with its image's files as root, the volumes that the
// kubelet mounts, and the user and groups that its manifest names. Images are files of this machine.
//
// What a real runtime does and this one does not: process and IPC namespaces, seccomp, limits of
// processor and memory, terminals, attaching, pulling. It needs Linux and root.
package cri
