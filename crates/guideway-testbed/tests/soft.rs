//! Every scenario on the packet path in user space.

guideway_testbed::scenarios!(guideway_testbed::soft::SoftForwarder);
