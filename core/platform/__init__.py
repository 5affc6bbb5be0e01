"""The platform contract: what a device brings, and how one platform is chosen."""
