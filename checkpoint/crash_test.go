package checkpoint

// childVariable tells the test binary that it is a child that will be killed.
const childVariable = "SIMNODE_CHECKPOINT_TEST_CHILD"

func child() {}
