package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// terraformProvider keeps objects of RabbitMQ as Terraform's configuration has them, by rabbit-hole.
func terraformProvider() Library {
	return Library{Name: "terraform-provider-rabbitmq", Module: "github.com/cyrilgdn/terraform-provider-rabbitmq", Version: "v1.8.0", Package: "./rabbitmq", Least: 27}
}

// terraformDifferences returns the acceptance tests that fail.
func terraformDifferences() []difference {
	const (
		plugin  = "there is no such plugin: parameters without effect are refused (VH-9)"
		mirrors = "it sets ha-mode; there are no mirrored queues, as in RabbitMQ 4"
		topics  = "topic permissions are given for exchanges that there are (VH-8)"
	)
	return []difference{
		{test: "TestAccFederationUpstream", why: plugin},
		{test: "TestAccFederationUpstream_validation", why: ""}, // passes: it ends before the broker is asked
		{test: "TestAccShovel", why: plugin},
		{test: "TestAccPolicy", why: mirrors},
		{test: "TestAccTopicPermissions", why: topics},
	}
}

// terraformProgram finds Terraform, or OpenTofu. They are not built from their modules, as other programs are: Terraform's
// requires directories that its module does not have, and OpenTofu imports the clients of all clouds.
func terraformProgram() (path string, env []string, err error) {
	if path, err := exec.LookPath("terraform"); err == nil {
		return path, nil, nil
	}
	if path, err := exec.LookPath("tofu"); err == nil {
		return path, []string{"TF_ACC_PROVIDER_HOST=registry.opentofu.org"}, nil
	}
	return "", nil, fmt.Errorf("terraform %w: put terraform or tofu into a directory of PATH", ErrAbsent)
}

// Terraform runs the acceptance tests of Terraform's provider for RabbitMQ against a node of its own: Terraform makes objects,
// changes, imports and deletes them. It returns ErrAbsent if there is no Terraform, or the provider cannot be fetched.
func Terraform(ctx context.Context) (LibraryTests, error) {
	program, env, err := terraformProgram()
	if err != nil {
		return LibraryTests{}, err
	}
	l := terraformProvider()
	return l.besideHTTP(ctx, func(dir string, q *Quorate) (r LibraryTests, err error) {
		url, config := "http://"+q.Cluster.Nodes[0].Management, filepath.Join(dir, "terraform.rc")
		err = errors.Join(
			l.change(dir, replacement{"rabbitmq/resource_user_test.go", "http://localhost:15672", url}),
			os.WriteFile(config, nil, 0o600), // in place of what the user has
		)
		if err != nil {
			return r, err
		}
		cmd := exec.CommandContext(ctx, "go", "test", "-mod=mod", "-vet=off", "-json", "-count=1", "-timeout", testsTimeout, l.Package)
		cmd.Dir = dir
		cmd.Env = append(append(os.Environ(), env...), "TF_ACC=1", "TF_ACC_TERRAFORM_PATH="+program, "TF_CLI_CONFIG_FILE="+config, "CHECKPOINT_DISABLE=1",
			"RABBITMQ_ENDPOINT="+url, "RABBITMQ_USERNAME=guest", "RABBITMQ_PASSWORD=guest")
		return goTests(cmd, l.Least, terraformDifferences()...), nil
	})
}
