package proxy

import (
	"encoding/json"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// injectedMessage is the message of all injected errors.
const injectedMessage = "injected by the fault proxy"

// writeError sends an error in the format of the API server.
func writeError(w http.ResponseWriter, code int, info *request.RequestInfo) {
	resource := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	var err *apierrors.StatusError
	switch code {
	case http.StatusConflict:
		err = apierrors.NewConflict(resource, info.Name, errInjected)
	case http.StatusForbidden:
		err = apierrors.NewForbidden(resource, info.Name, errInjected)
	case http.StatusUnprocessableEntity:
		err = apierrors.NewInvalid(schema.GroupKind{Group: info.APIGroup, Kind: info.Resource}, info.Name,
			field.ErrorList{field.Invalid(field.NewPath("spec"), nil, injectedMessage)})
	case http.StatusTooManyRequests:
		err = apierrors.NewTooManyRequests(injectedMessage, 1)
		w.Header().Set("Retry-After", "1")
	case http.StatusGatewayTimeout:
		err = apierrors.NewTimeoutError(injectedMessage, 0)
	case http.StatusGone:
		err = apierrors.NewResourceExpired(injectedMessage)
	default:
		err = apierrors.NewInternalError(errInjected)
	}
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	status.Code = int32(code)
	content, encodeErr := json.Marshal(status)
	if encodeErr != nil {
		panic(encodeErr) // a Status can always be encoded
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(content) // the client may have disconnected
}

type injectedError struct{}

func (injectedError) Error() string { return injectedMessage }

var errInjected error = injectedError{}
