def sub(f,a,b):
    s=open(f).read(); assert a in s,(f,a); open(f,'w').write(s.replace(a,b)); print("ok",f)
sub("dcl_monai/candidates.py","bits |= 1 << index","bits |= 1 << int(index)")
A="dcl_monai/transforms/array.py"
sub(A,"return everything & ~annotated\n","return everything & ~annotated | bits & annotated\n")
sub(A,'not np.array_equal(raw, np.rint(raw))','not (np.isfinite(raw).all() and np.array_equal(raw, np.rint(raw)))')
sub("dcl_monai/networks/bank.py","before = missing // 2","before = size[dim] // 2 - shape[dim] // 2")
sub("dcl_monai/networks/bank.py","picked = (picked + shift) % self.valid.sum(dim=1)","""rank = (self.valid.long().cumsum(dim=1) - 1).unsqueeze(0).expand(batch, -1, -1)
            place = (rank.gather(2, picked.unsqueeze(2)).squeeze(2) + shift) % self.valid.sum(dim=1)
            order = torch.argsort((~self.valid).long(), dim=1, stable=True).unsqueeze(0).expand(batch, -1, -1)
            picked = order.gather(2, place.unsqueeze(2)).squeeze(2)""")
sub("dcl_monai/data/datalist.py",'annotated[item["subject"]]','annotated[str(item["subject"])]')
sub("dcl_monai/data/dataset.py",'if 1 << j in item["sets"] or','if 1 << j in {item["sets"][int(code)] for code in item["label"].unique()} or')
sub("dcl_monai/data/bank.py","        taken.append(int(nearest.argmax()))","        nearest[taken] = -1.0  # no entry twice\n        taken.append(int(nearest.argmax()))")
