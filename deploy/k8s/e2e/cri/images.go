//go:build linux

package cri

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageService lists images to the kubelet, which are all there from the start.
type imageService struct {
	cri.UnimplementedImageServiceServer
	images *Images
}

// proto is the image as the kubelet knows it.
func (im *stored) proto() *cri.Image {
	return &cri.Image{
		Id: im.id, RepoTags: []string{im.name}, Size: im.bytes, Uid: &cri.Int64Value{Value: im.User}, Spec: &cri.ImageSpec{Image: im.name},
	}
}

// ListImages implements the image service.
func (s imageService) ListImages(context.Context, *cri.ListImagesRequest) (*cri.ListImagesResponse, error) {
	out := &cri.ListImagesResponse{}
	for _, im := range s.images.all() {
		out.Images = append(out.Images, im.proto())
	}
	return out, nil
}

// ImageStatus implements the image service.
func (s imageService) ImageStatus(_ context.Context, q *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	out := &cri.ImageStatusResponse{}
	if im := s.images.get(q.GetImage().GetImage()); im != nil {
		out.Image = im.proto()
	}
	return out, nil
}

// PullImage finds an image that is there; there is no registry.
func (s imageService) PullImage(_ context.Context, q *cri.PullImageRequest) (*cri.PullImageResponse, error) {
	im := s.images.get(q.GetImage().GetImage())
	if im == nil {
		return nil, status.Errorf(codes.NotFound, "image %s is not on this node, and there is no registry", q.GetImage().GetImage())
	}
	return &cri.PullImageResponse{ImageRef: im.id}, nil
}

// RemoveImage keeps the image: other nodes have it too.
func (s imageService) RemoveImage(context.Context, *cri.RemoveImageRequest) (*cri.RemoveImageResponse, error) {
	return &cri.RemoveImageResponse{}, nil
}

// ImageFsInfo implements the image service.
func (s imageService) ImageFsInfo(context.Context, *cri.ImageFsInfoRequest) (*cri.ImageFsInfoResponse, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(s.images.dir, &fs); err != nil {
		return nil, err
	}
	usage := []*cri.FilesystemUsage{{
		Timestamp: time.Now().UnixNano(), FsId: &cri.FilesystemIdentifier{Mountpoint: s.images.dir},
		UsedBytes: &cri.UInt64Value{Value: (fs.Blocks - fs.Bfree) * uint64(fs.Bsize)}, InodesUsed: &cri.UInt64Value{Value: fs.Files - fs.Ffree},
	}}
	return &cri.ImageFsInfoResponse{ImageFilesystems: usage, ContainerFilesystems: usage}, nil
}
