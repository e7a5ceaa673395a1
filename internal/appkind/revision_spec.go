package appkind

import appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"

// AppStackRevisionSpec returns the part of a stack that a revision stores: the components, without
// operations and limits. limit is the number of revisions to keep; 0 means the default.
func AppStackRevisionSpec(stack *appsapi.AppStack) (spec any, limit int32) {
	stored := appsapi.AppStackSpec{Components: stack.Spec.Components}
	if l := stack.Spec.RevisionHistoryLimit; l != nil {
		limit = *l
	}
	return stored, limit
}

// CloudManagerRevisionSpec returns the part of a CloudManager that a revision stores, without
// operations, the deletion policy and the password: anyone with read access to revisions could read it. The password is omitted
// instead of replaced by a placeholder, so that a rollback does not set the placeholder.
func CloudManagerRevisionSpec(cm *appsapi.CloudManager) (spec any, limit int32) {
	stored := cm.Spec
	stored.DeletionPolicy, stored.Operations, stored.DB.RootPass = "", appsapi.Operations{}, ""
	return stored, 0
}

// AppStackDeletionPolicy returns the deletion policy of a stack.
func AppStackDeletionPolicy(stack *appsapi.AppStack) appsapi.DeletionPolicy {
	return stack.Spec.DeletionPolicy
}

// CloudManagerDeletionPolicy returns the deletion policy of a CloudManager.
func CloudManagerDeletionPolicy(cm *appsapi.CloudManager) appsapi.DeletionPolicy {
	return cm.Spec.DeletionPolicy
}
