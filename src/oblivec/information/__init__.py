"""What a user matrix says about an attribute: vCLUB, its label-free form, and the network q inside them."""
