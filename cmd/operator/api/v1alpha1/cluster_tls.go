package v1alpha1

// TLSSpec switches TLS on. Without certManager these Secrets must exist, with tls.crt, tls.key and
// ca.crt: NAME-N-peer-tls for each node, and NAME-client-tls for the listener of clients.
type TLSSpec struct {
	// CertManager makes the Secrets.
	//
	// +optional
	CertManager *CertManagerSpec `json:"certManager,omitempty"`
	// ServerName is the name by which the operator verifies the nodes' certificate for clients; empty:
	// NAME.NAMESPACE.svc.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`
}

// IssuerReference names an issuer of cert-manager.
type IssuerReference struct {
	// Name of the issuer.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Kind of the issuer.
	//
	// +optional
	// +kubebuilder:default=Issuer
	// +kubebuilder:validation:Enum=Issuer;ClusterIssuer
	Kind string `json:"kind,omitempty"`
}

// CertManagerSpec lets cert-manager issue the certificates.
type CertManagerSpec struct {
	// PeerIssuer issues the certificates that nodes show each other, and should issue nothing else.
	PeerIssuer IssuerReference `json:"peerIssuer"`
	// ClientIssuer issues the certificate that clients see.
	ClientIssuer IssuerReference `json:"clientIssuer"`
	// DNSNames are further names in the certificate that clients see.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	DNSNames []string `json:"dnsNames,omitempty"`
	// Duration of a certificate.
	//
	// +optional
	// +kubebuilder:default="2160h"
	// +kubebuilder:validation:Pattern=`^([0-9]+(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	Duration string `json:"duration,omitempty"`
	// RenewBefore is how long before its end a certificate is renewed.
	//
	// +optional
	// +kubebuilder:default="720h"
	// +kubebuilder:validation:Pattern=`^([0-9]+(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	RenewBefore string `json:"renewBefore,omitempty"`
}
