"""From clips to the batched views a method asks for."""
